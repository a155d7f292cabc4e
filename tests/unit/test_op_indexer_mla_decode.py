"""The pipeline: honest kernels pass from end to end; whichever stage is wrong is named, and how far its error travels is told."""

from __future__ import annotations

import pytest
import torch

from kvcheck.agent import main, specs

OP = "indexer_mla_decode"
STAGES = specs.load("ops", OP).data["stages"]
DEFAULTS = {name: axis.default for name, axis in specs.axes(OP).items()}
SMALL = {"context_len": [70, 3], "index_heads": 4, "num_heads": 2, "topk": 16, "block_size": 16, "next_n": 2}
PLANTED = {
    "block_table": "null_block_read",
    "index_k_cache_write": "divisor_mistaken",
    "paged_mqa_logits": "head_dropped",
    "topk_per_row": "duplicate_index",
    "topk_slots": "padding_mapped",
    "mla_decode": "split_dropped",
}


@pytest.fixture(scope="module")
def judge():
    torch.set_num_threads(1)
    runner = main.Runner("cpu", {"type": "cpu", "arch": "cpu", "name": "cpu"})

    def run(provider, request=(), **params):
        message = {"op": OP, "provider": provider, "params": {**DEFAULTS, **SMALL, **params}, "seed": 5, **dict(request)}
        return runner.run_case(message, lambda phase: None)

    return run


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"context_len": [0, 33], "next_n": 1, "kv_format": "fp16"},
        {"block_size": 1, "block_table": "interleaved", "poison": "nan"},
        {"context_len": [70, 66], "block_table": "shared_prefix"},
        {"kv_dtype": "e4m3fnuz", "scale_format": "fp32", "poison": "none"},
    ],
)
def test_honest_kernels_pass_from_end_to_end(judge, params):
    row = judge("torch_eager", **params)
    assert row["verdict"] == "pass" and row["message"] == "", row["message"]
    assert [(stage["op"], stage["verdict"]) for stage in row["stages"]] == [(name, "pass") for name in STAGES]
    assert row["first_wrong_stage"] is None
    assert row["travel"]["max_abs_diff"] < 0.01 * row["travel"]["largest"]
    assert row["metrics"]["max_bound_ratio"] == max(stage["max_bound_ratio"] or 0 for stage in row["stages"]) > 0


@pytest.mark.parametrize("stage", STAGES)
def test_the_first_wrong_stage_is_named_and_only_that_one(judge, stage):
    row = judge(f"fault:{PLANTED[stage]}")
    assert row["first_wrong_stage"] == stage and row["message"].startswith(f"first wrong stage: {stage}: ")
    verdicts = {each["op"]: each["verdict"] for each in row["stages"]}
    assert verdicts.pop(stage) == row["verdict"] != "pass"
    assert set(verdicts.values()) == {"pass"}


def test_an_error_in_the_selection_travels_into_the_output(judge):
    honest, faulty = judge("torch_eager"), judge("fault:duplicate_index")
    assert faulty["travel"]["max_abs_diff"] > 20 * honest["travel"]["max_abs_diff"]
    assert f"off by up to {faulty['travel']['max_abs_diff']:.3g}" in faulty["message"]


def test_stages_are_judged_apart_two_faults_are_both_seen(judge):
    row = judge("fault:head_dropped+duplicate_index")
    wrong = [stage["op"] for stage in row["stages"] if stage["verdict"] != "pass"]
    assert wrong == ["paged_mqa_logits", "topk_per_row"] and row["first_wrong_stage"] == "paged_mqa_logits"


def test_a_stage_the_provider_lacks_is_run_by_ours_and_named(judge, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from kvcheck.agent.providers import torch_eager\n\n\n"
        "def topk_slots(**arguments):\n    torch_eager.topk_slots(**arguments)\n    arguments['out'][0, 0] += 1\n"
    )
    row = judge(str(file))
    assert row["first_wrong_stage"] == "topk_slots"
    assert {stage["op"]: stage["provider"] for stage in row["stages"]} == {
        **dict.fromkeys(STAGES, "torch_eager"),
        "topk_slots": str(file),
    }


def test_a_provider_without_any_stage_is_unsupported(judge, tmp_path):
    file = tmp_path / "none.py"
    file.write_text("def something_else():\n    pass\n")
    row = judge(str(file))
    assert row["verdict"] == "unsupported" and "has no kernel for any stage" in row["message"]
