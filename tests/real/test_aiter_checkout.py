"""`aiter@DIR`: any commit's layout, argument names and limits, shown on stand-in checkouts of our own writing.

The mistake of aiter before 8abb3607e9 (#4440), the block table looked up by token when block_size is above 1, is planted in one of
them: two blocks of the table are enough to see it, and with one block it hides behind the right answer to the first token.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("triton", reason="needs triton")

SMALL = {"num_heads": 32, "batch": 2, "topk": 64, "head_dim": 64}
CASES = [
    SMALL | {"context_len": [100, 64], "block_size": 1, "next_n": 2},
    SMALL | {"context_len": [100, 33], "block_size": 16, "next_n": 2},
    SMALL | {"context_len": [[100, 7], [0, 64]], "block_size": 64, "next_n": 2},
]


def content(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("variant", ["stage1", "fused"])
def test_a_right_kernel_passes_and_nothing_is_written(standin, judge, tmp_path, variant):
    root = standin(tmp_path)
    before = content(root)
    rows = judge(f"aiter:{variant}@{root}", CASES)
    assert [row.verdict for row in rows] == ["pass"] * 3, [row.message for row in rows]
    assert content(root) == before
    assert rows[0].dispatch.startswith(f"stand_in_{variant} (aiter/ops/triton/_triton_kernels/attention/pa_mqa_logits.py:")
    assert rows[0].provider_version.startswith("pa_mqa_logits.py ")


def test_a_table_looked_up_by_token_is_refused_and_when_run_all_the_same_is_wrong(standin, judge, tmp_path):
    name = f"aiter@{standin(tmp_path, right=False)}"
    first, second, _ = judge(name, CASES)
    assert first.verdict == "pass", first.message
    assert second.verdict == "unsupported"
    assert "block_size 16" in second.message
    assert "takes no KVBlockSize" in second.message
    (forced,) = judge(name, CASES[1:2], run_unsupported=True)
    assert forced.verdict == "mismatch"
    assert forced.first_bad["row"] == 0
    assert forced.first_bad["position"] < 16
    assert forced.metrics["max_bound_ratio"] > 1e3


def test_old_places_old_options_and_a_written_in_dtype(standin, judge, tmp_path):
    name = f"aiter@{standin(tmp_path, old_place=True, fnuz=True, fused=False)}"
    served, refused = judge(name, [CASES[1] | {"kv_dtype": "e4m3fnuz"}, CASES[1] | {"kv_dtype": "e4m3fn"}])
    assert served.verdict == "pass", served.message
    assert "(aiter/ops/triton/_triton_kernels/pa_mqa_logits.py:" in served.dispatch
    assert refused.verdict == "unsupported"
    assert "reads every cache as e4m3fnuz" in refused.message


def test_other_argument_names_and_a_missing_variant(standin, judge, tmp_path):
    root = standin(tmp_path, names="renamed", fused=False)
    (row,) = judge(f"aiter@{root}", CASES[1:2])
    assert row.verdict == "pass", row.message
    (missing,) = judge(f"aiter:fused@{root}", CASES[1:2])
    assert missing.verdict == "unsupported"
    assert "has no deepgemm_fp8_paged_mqa_logits" in missing.message


def test_a_file_that_does_not_parse_is_no_evidence(standin, judge, tmp_path):
    root = standin(tmp_path)
    wrapper = root / "aiter/ops/triton/attention/pa_mqa_logits.py"
    wrapper.write_text(wrapper.read_text() + "\ndef (:\n")
    (row,) = judge(f"aiter@{root}", CASES[:1])
    assert row.verdict == "unsupported"
    assert "attention/pa_mqa_logits.py line " in row.message
    assert "does not parse on Python" in row.message


def test_a_folder_that_is_no_checkout(judge, tmp_path):
    (row,) = judge(f"aiter@{tmp_path}", CASES[:1])
    assert row.verdict == "unsupported"
    assert "is no aiter checkout" in row.message
