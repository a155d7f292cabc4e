"""Scripts as text: what they hold and what they never hold, for whom there is none, and that torch is not needed to write one."""

from __future__ import annotations

import ast
import dataclasses

import pytest

from kvcheck.agent import specs
from kvcheck.flow.options import UsageError
from kvcheck.flow.repro import _judged, text_for
from kvcheck.flow.repro_rows import find_row, wanted
from kvcheck.flow.selftest_cases import CASES
from kvcheck.repro import relations
from kvcheck.repro.parts import NoScript
from kvcheck.repro.script import MOST_LINES, text

OPS = tuple(CASES)
LONGEST = 120
AITER = ("mla_decode", "mqa_logits", "paged_mqa_logits", "topk_per_row")


def row(op="paged_mqa_logits", provider="triton", case=None, **given):
    """A failing row of a run."""
    params = {name: axis.default for name, axis in specs.axes(op).items()} | (CASES[op][0] if case is None else case)
    made = {
        "id": f"{op}[x=1]", "op": op, "provider": provider, "params": params, "seed": 3, "verdict": "mismatch", "message": "off by 1",
        "precision": None, "dispatch": None, "first_bad": None, "also_failed": [],
    }  # fmt: skip
    return {**made, **given}


def run(*rows, kind="cpu", **environment):
    """A run that holds some rows."""
    device = {"type": kind, "name": "CPU", "arch": "cpu" if kind == "cpu" else "gfx942", "interpreted": kind == "cpu"}
    versions = {"python": "3.11.7", "torch": "2.13.0", "triton": "3.7.1", "aiter": "0.1.7", "kvcheck": "0.1.0", "device": device}
    return {"schema": "kvcheck.run/1", "run": {"id": "a-run"}, "environment": {**versions, **environment}, "cases": list(rows)}


def written(provider="triton", kind="cpu", **given):
    """The script of a failing row."""
    made = row(provider=provider, **given)
    return text_for(run(made, kind=kind), made)


@pytest.mark.parametrize("provider", ["triton", "torch_eager", "fault:head_dropped", "mutant:paged_mqa_logits:3", "/a/kernel.py"])
@pytest.mark.parametrize("op", OPS)
def test_every_op_and_provider_has_a_script_of_few_lines(op, provider):
    found = 0
    for case in CASES[op]:
        script = written(provider, op=op, case=case)
        if script is None:
            continue
        found += 1
        ast.parse(script)
        lines = script.splitlines()
        assert len(lines) <= MOST_LINES and max(map(len, lines)) <= LONGEST
        assert ("kvcheck." in script.partition('"""\n')[2]) is not provider.endswith(".py")
    assert found >= len(CASES[op]) - 1  # one format of latents takes more lines than there are, in a user's file


@pytest.mark.parametrize("op", AITER)
def test_the_kernels_own_package_is_all_that_aiter_needs(op):
    for kind, case in (("cpu", CASES[op][0]), ("cuda", CASES[op][0])):
        script = written("aiter", kind, op=op, case=case | ({"kv_format": "fp16"} if op == "mla_decode" else {}))
        body = script.partition('"""\n')[2]
        assert "from aiter" in body and "import kvcheck" not in body and "from kvcheck" not in body
        assert len(script.splitlines()) <= MOST_LINES
        assert ("types.ModuleType" in body) is (kind == "cpu" and op != "topk_per_row")


def test_a_checkout_of_aiter_comes_first_on_the_path():
    script = written("aiter:fused_plain@/somewhere/aiter", case={"context_len": 9, "block_size": 1, "num_heads": 2, "head_dim": 16})
    assert "sys.path.insert(0, '/somewhere/aiter')" in script and "deepgemm_fp8_paged_mqa_logits as kernel" in script


def test_vllm_is_called_as_it_is():
    assert "from vllm.v1.attention.ops.rocm_aiter_mla_sparse import fp8_mqa_logits_torch as kernel" in written("vllm", op="mqa_logits")
    assert "triton_convert_req_index_to_global_index" in written("vllm", op="topk_slots")
    assert written("vllm", op="mla_metadata") is None


def test_versions_and_the_command_are_in_the_header():
    script = written("aiter", dispatch="_k (aiter/ops/triton/pa_mqa_logits.py:12, blob 1)")
    header = ast.get_docstring(ast.parse(script))
    for part in ("MISMATCH: off by 1", "torch 2.13.0", "triton 3.7.1", "aiter 0.1.7", "byte for byte"):
        assert part in header
    assert "kvcheck repro a-run 'paged_mqa_logits[x=1]@aiter'" in header.replace("\n", " ")


def test_text_from_a_kernel_cannot_leave_the_header():
    evil = '"""\nimport os\nos.system("boom")\n"""\x1b[31m \\'
    script = written(message=evil, verdict="crash")
    assert "boom" in ast.get_docstring(ast.parse(script)).replace("\n", "")
    assert not any(isinstance(node, ast.Attribute) and node.attr == "system" for node in ast.walk(ast.parse(script)))
    assert "\x1b" not in script


def test_the_same_row_gives_the_same_text():
    assert written() == written()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"verdict": "unsupported"}, "says nothing of the kernel"),
        ({"verdict": "invalid_case"}, "says nothing of the kernel"),
        ({"verdict": "metamorphic", "check": "decode_against_prefill"}, "relation decode_against_prefill"),
        ({"case": {"block_table": "no_such_table"}}, "does not fit the op"),
        ({"case": {"kv_dtype": "e4m3fn; import os"}}, "does not fit the op"),
        ({"case": {"batch": "1, 2); import os; ("}}, "does not fit the op"),
        ({"provider": "aiter", "kind": "cuda", "arch": "sm_90"}, "options that Triton refuses"),
    ],
)
def test_some_rows_have_no_script(given, why):
    given = dict(given)
    kind, arch = given.pop("kind", "cpu"), given.pop("arch", None)
    made = row(**given)
    whole = run(made, kind=kind)
    whole["environment"]["device"] |= {"arch": arch} if arch else {}
    assert text_for(whole, made) is None
    with pytest.raises(NoScript, match=why):
        text(wanted(whole, made))


def test_guards_and_repeats_are_in_the_scripts_that_need_them():
    assert "guarded(" not in written() and "guarded(" in written(verdict="out_of_bounds_write")
    assert "for turn in range" not in written() and "for turn in range" in written(
        verdict="nondeterministic", case=CASES["paged_mqa_logits"][4]
    )
    assert "kept = {" in written(verdict="input_mutated")
    assert "faulthandler" in written(verdict="timeout")


def test_the_shrunk_case_is_what_a_script_shows():
    small = row(case={"context_len": 7, "nonzero_keys": [3], "num_heads": 1, "head_dim": 16})
    made = row(shrunk={"smallest": {"params": small["params"], "row": {"message": "smaller"}}})
    script = text_for(run(made), made)
    assert "CONTEXT = LENGTHS = [7]" in script and "torch.tensor([3])" in script and "smaller" in script


def test_a_pipeline_shows_its_first_wrong_stage():
    given = {name: axis.default for name, axis in specs.axes("indexer_mla_decode").items()} | {"context_len": [40, 9], "topk": 8}
    for stage in specs.load("ops", "indexer_mla_decode").data["stages"]:
        made = row("indexer_mla_decode", case=given, first_wrong_stage=stage)
        script = text_for(run(made), made)
        assert f"import {stage} as kernel" in script and f"{stage} by triton (stage of indexer_mla_decode)" in script
    made = row("indexer_mla_decode", case=given, first_wrong_stage=None)
    assert text_for(run(made), made) is None


def test_the_other_side_of_a_relation_is_a_case_of_its_own():
    for relation, axis in (("block_size", "block_size"), ("padded_batch", "batch"), ("low_against_high_ids", "num_blocks")):
        made = row(verdict="metamorphic", check=relation)
        base = wanted(run(made), made)
        other = relations.others(base)[0]
        assert other.params[axis] != base.params[axis] and text(other)


@pytest.mark.parametrize(
    ("op", "relation", "message", "line"),
    [
        ("mla_decode", "page_permutation", "16 pages in another order: ...", "kv_cache.flip(0)"),
        ("paged_mqa_logits", "strided_against_contiguous", "a pitched cache: ...", "the same pages, further apart"),
        ("paged_mqa_logits", "batch_neighbour", "other values in all but the first, third, ... request: ...", "[1::2] *= -3"),
        ("mqa_logits", "batch_neighbour", "other values in all but the second, fourth, ... row: ...", "[0::2] *= -3"),
        ("paged_mqa_logits", "repeat", "the same call again: ...", "for turn in range"),
    ],
)
def test_relations_whose_bits_must_agree_are_two_calls(op, relation, message, line):
    script = written(op=op, case=CASES[op][4], verdict="metamorphic", check=relation, message=message)
    assert line in script and script.count("kernel(") >= 2


def test_a_run_from_before_an_axis_still_has_a_script():
    made = row()
    del made["params"]["table_stride"], made["params"]["cache"]
    assert text_for(run(made), made) == written()


def test_rows_are_found_by_name():
    right, wrong = row(provider="triton", verdict="pass"), row(provider="torch_eager")
    assert find_row(run(right, wrong), right["id"]) is wrong
    assert find_row(run(right, wrong), f"{right['id']}@triton") is right
    with pytest.raises(UsageError, match="expected a case of the run, got 'other'"):
        find_row(run(right), "other")
    with pytest.raises(UsageError, match="of 2 providers"):
        find_row(run(wrong, row(provider="aiter")), wrong["id"])


@pytest.mark.parametrize(
    ("verdict", "message", "code", "said", "confirmed"),
    [
        ("mismatch", "", 1, "WRONG logits at [0, 1]", True),
        ("mismatch", "", 1, "ModuleNotFoundError: No module named 'aiter'", False),
        ("mismatch", "", 0, "RIGHT", False),
        ("pass", "", 0, "RIGHT", True),
        ("pass", "", 1, "WRONG", False),
        ("crash", "ZeroDivisionError: integer division", 1, "ZeroDivisionError: integer division", True),
        ("crash", "ZeroDivisionError: integer division", 1, "ModuleNotFoundError: aiter", False),
        ("crash", "the process ended: SIGSEGV in phase kernel", -11, "", True),
        ("crash", "the process ended: SIGABRT in phase kernel", -11, "", False),
        ("timeout", "", 1, "Timeout (0:01:00)!", True),
    ],
)
def test_a_script_is_confirmed_by_how_it_ends(verdict, message, code, said, confirmed):
    assert _judged({"verdict": verdict, "message": message}, code, said)[0] is confirmed


def test_a_script_knows_its_precision_model():
    plain, hopper = (written(precision=model) for model in ("fp32_any (declared)", "hopper_wgmma_fp8 (declared)"))
    assert "2**-24" in plain and "2**-8" in hopper
    assert "size * (0)" in written(case={"values": "exact_int", "num_heads": 2, "head_dim": 16, "context_len": 9})


def test_a_cuda_run_is_repeated_on_cuda():
    script = written(kind="cuda")
    assert 'torch.set_default_device("cuda")' in script and "TRITON_INTERPRET" not in script


def test_fields_of_a_row_are_kept():
    made = wanted(run(row()), row())
    assert dataclasses.replace(made, seed=4).seed == 4 and made.case == "paged_mqa_logits[x=1]@triton"
