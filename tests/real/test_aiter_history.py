"""The real aiter at real commits, from a clone of ROCm/aiter that the variable KVCHECK_AITER_CLONE names; skipped without one.

Mechanisms: the block table looked up by token (#4440, #4825); heads // ChunkQ is 0 (#2563); the mask before fe927e8d32, still in both
ragged_k kernels; stage1 storing past the row end. About eight minutes on two busy cores, nearly all of it the fused kernel.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

CLONE = os.environ.get("KVCHECK_AITER_CLONE")
pytestmark = pytest.mark.skipif(not CLONE, reason="needs a clone of ROCm/aiter: set KVCHECK_AITER_CLONE to its folder")

BEFORE_MASK, PARSES = "e6015f3a6a", "ee7897ea55"
SMALL = {"num_heads": 32, "block_size": 1, "topk": 64, "batch": 2}
AT_64 = [SMALL | {"context_len": 64}, SMALL | {"context_len": 128}]
ELSEWHERE = [SMALL | {"context_len": [100, 0]}, SMALL | {"context_len": [321, 77], "next_n": 2}]
BLOCKS = [SMALL | {"context_len": [100, 16], "block_size": n, "next_n": 2} for n in (2, 16, 64)]


def show(commit: str, *paths: str) -> bytes:
    return subprocess.run(["git", "-C", CLONE, "archive", commit, *paths], check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    made: dict[str, Path] = {}

    def make(commit: str) -> Path:
        if commit not in made:
            made[commit] = tmp_path_factory.mktemp(commit)
            with tarfile.open(fileobj=BytesIO(show(commit, "aiter"))) as tree:
                wanted = [member for member in tree.getmembers() if member.isdir() or member.name.endswith(".py")]
                tree.extractall(made[commit], members=wanted, filter="data")
        return made[commit]

    return make


def verdicts(rows) -> list[str]:
    return [row.verdict for row in rows]


def test_the_recorded_signatures_are_the_real_ones(checkout, signatures):
    for name, by_commit in signatures.items():
        for commits, text in by_commit.items():
            wanted = ast.dump(ast.parse(f"def f({text}): pass").body[0].args)
            for commit in commits:
                files = [p for p in (checkout(commit) / "aiter/ops").rglob("*.py") if p.name in ("pa_mqa_logits.py", "topk.py")]
                trees = [ast.parse(path.read_text()) for path in files]
                found = [node for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
                (function,) = [node for node in found if len(node.args.args) > 2]
                for argument in function.args.args:
                    argument.annotation = None
                assert ast.dump(function.args) == wanted, f"{name} at {commit}"


@pytest.mark.parametrize("variant", ["stage1", "fused"])
def test_before_the_mask_was_corrected_only_multiples_of_64_pass(checkout, judge, variant):
    rows = judge(f"aiter:{variant}@{checkout(BEFORE_MASK)}", AT_64 + ELSEWHERE)
    assert verdicts(rows) == ["pass", "pass", "nonfinite", "nonfinite"], [row.message for row in rows]
    assert (rows[2].first_bad["row"], rows[2].first_bad["position"], rows[2].first_bad["actual"]) == (0, 100, 0.0)


@pytest.mark.parametrize("variant", ["stage1", "fused"])
@pytest.mark.parametrize("commit", [PARSES, "e72c1ddf95", "02d8af55ea", "d9c373033c", "f369720033", "04907edc21", "e4048607a5"])
def test_since_then_every_length_passes(checkout, judge, commit, variant):
    rows = judge(f"aiter:{variant}@{checkout(commit)}", AT_64[:1] + ELSEWHERE)
    assert verdicts(rows) == ["pass"] * 3, [row.message for row in rows]
    assert max(row.metrics["max_bound_ratio"] for row in rows) < 0.01


@pytest.mark.parametrize("variant", ["ragged", "ragged_stage1"])
@pytest.mark.parametrize("commit", [PARSES, "e4048607a5"])
def test_the_ragged_kernels_never_got_the_corrected_mask(checkout, judge, commit, variant):
    rows = judge(f"aiter:{variant}@{checkout(commit)}", AT_64 + ELSEWHERE)
    assert verdicts(rows) == ["pass", "pass", "nonfinite", "nonfinite"], [row.message for row in rows]


@pytest.mark.parametrize(("variant", "right", "wrong"), [("stage1", "8abb3607e9", "f369720033"), ("fused", "04907edc21", "eb84cb0220")])
def test_blocks_are_served_since_their_commits(checkout, judge, variant, right, wrong):
    rows = judge(f"aiter:{variant}@{checkout(right)}", BLOCKS)
    assert verdicts(rows) == ["pass"] * 3, [row.message for row in rows]
    name = f"aiter:{variant}@{checkout(wrong)}"
    assert verdicts(judge(name, BLOCKS)) == ["unsupported"] * 3
    forced = judge(name, BLOCKS[1:2], run_unsupported=True)
    assert forced[-1].verdict in ("mismatch", "nonfinite", "crash"), forced[-1].message


def test_the_defaults_of_stage1_crash_below_64_heads(checkout, judge):
    cases = [SMALL | {"context_len": 64, "num_heads": heads} for heads in (8, 16, 32, 48, 96, 64)]
    rows = judge(f"aiter:stage1_defaults@{checkout('e4048607a5')}", cases)
    assert verdicts(rows) == ["crash"] * 5 + ["pass"]
    assert all("ZeroDivisionError" in row.message for row in rows[:4])
    assert "AssertionError" in rows[4].message


def test_stage1_stores_past_the_row_end(checkout, judge):
    case = SMALL | {"context_len": 257, "max_model_len": 257}
    stage1, = judge(f"aiter:stage1@{checkout('e4048607a5')}", [case])  # fmt: skip
    assert stage1.verdict == "out_of_bounds_write"
    assert stage1.metrics["guard_hits"] == 255
    (fused,) = judge(f"aiter:fused@{checkout('e4048607a5')}", [case])
    assert fused.verdict == "pass", fused.message


def test_a_written_in_dtype_and_a_file_for_newer_pythons(checkout, judge):
    case = SMALL | {"context_len": 64}
    rows = judge(f"aiter@{checkout('d36601a9d0')}", [case | {"kv_dtype": "e4m3fnuz"}, case | {"kv_dtype": "e4m3fn"}])
    assert verdicts(rows) == ["pass", "unsupported"], [row.message for row in rows]
    if sys.version_info < (3, 12):
        (row,) = judge(f"aiter@{checkout('fe927e8d32')}", [case])
        assert row.verdict == "unsupported"
        assert "need Python 3.12" in row.message
