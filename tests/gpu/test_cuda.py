"""On a real GPU: our Triton kernels pass under their precision model, exact inputs are bitwise, faults and crashes are told apart."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kvcheck.agent import specs

pytestmark = pytest.mark.gpu

LOGITS = {name: axis.default for name, axis in specs.axes("paged_mqa_logits").items()}
TOPK = {name: axis.default for name, axis in specs.axes("topk_per_row").items()}


@pytest.fixture(scope="module")
def runner():
    import torch

    from kvcheck.agent import environment, main

    device = torch.device("cuda", 0)
    return main.Runner(device, environment.collect(device)["device"])


def judge(runner, provider="triton", op="paged_mqa_logits", request=(), **params):
    defaults = LOGITS if op == "paged_mqa_logits" else TOPK
    message = {"op": op, "provider": provider, "params": {**defaults, **params}, "seed": 42, **dict(request)}
    return runner.run_case(message, lambda phase: None)


@pytest.mark.parametrize("num_heads", [1, 8, 16, 24, 32, 64, 96, 128])
@pytest.mark.parametrize("kv_dtype", ["e4m3fn", "e4m3fnuz"])
def test_logits_pass_for_every_head_count(runner, num_heads, kv_dtype):
    row = judge(runner, num_heads=num_heads, kv_dtype=kv_dtype, context_len=[2049, 0, 1, 300], batch=4, next_n=2, topk=64)
    assert row["verdict"] == "pass", row["message"]
    assert row["params"]["poison"] == "nan"


@pytest.mark.parametrize("values", sorted(set(specs.axes("paged_mqa_logits")["values"].choices) - {"random_bytes"}))
@pytest.mark.parametrize("num_heads", [32, 64])
def test_logits_pass_for_every_distribution(runner, values, num_heads):
    row = judge(runner, values=values, num_heads=num_heads, context_len=3000, block_size=16, scale="decades", topk=64)
    assert row["verdict"] == "pass", row["message"]


def test_precision_class_changes_with_the_head_count(runner):
    """The 13-bit accumulators of Hopper's wgmma: from 64 heads on the plain fp32 model is not what the hardware keeps."""
    if not runner.facts["arch"].startswith("sm_90"):
        pytest.skip(f"needs sm_90, this is {runner.facts['arch']}")
    few, many = (judge(runner, num_heads=heads, context_len=4096, request={"precision": "blackwell_tcgen05_fp8"}) for heads in (32, 64))
    assert few["verdict"] == "pass" and many["verdict"] == "mismatch"
    assert judge(runner, num_heads=64, context_len=4096)["precision"] == "hopper_wgmma_fp8 (declared)"


@pytest.mark.parametrize("values", sorted(specs.axes("topk_per_row")["values"].choices))
def test_topk_passes_for_every_distribution(runner, values):
    for poison in ("nan", "inf", "large"):
        row = judge(runner, op="topk_per_row", values=values, poison=poison, context_len=[30000, 0, 64, 2049], batch=4, next_n=2, topk=2048)
        assert row["verdict"] == "pass", (poison, row["message"])


def test_repeats_hold_the_same_bits(runner):
    assert judge(runner, context_len=8192, batch=2, request={"repeat": 20})["verdict"] == "pass"


@pytest.mark.parametrize("fault", ["wrong_past=100", "mask_off_by_one", "next_token_scale", "stored_past_row", "head_dropped"])
def test_planted_faults_are_caught(runner, fault):
    width = 300 if fault == "stored_past_row" else 512
    row = judge(runner, f"fault:{fault}", context_len=300, batch=2, block_size=16, max_model_len=width, topk=64)
    assert row["verdict"] in ("mismatch", "nonfinite", "out_of_bounds_write")


@pytest.mark.parametrize(
    "fault", ["page_turned_early", "race_with_next_tile", "reads_clamped_to_zero", "rows_swapped", "whole_tile_stored"]
)
def test_faults_in_the_source_of_our_kernel_are_caught(runner, fault):
    """A race among them: it shows in one call or another."""
    params = {"context_len": [300, 2049], "batch": 2, "next_n": 2, "block_size": 16, "max_model_len": 2049, "topk": 64}
    rows = [judge(runner, f"fault:{fault}", request={"repeat": 5}, **params) for _ in range(3)]
    assert {row["verdict"] for row in rows} & {"mismatch", "nonfinite", "unwritten", "out_of_bounds_write", "nondeterministic"}, rows


def test_a_lost_context_is_the_kernels_crash(tmp_path):
    """In a process of its own: it has no device afterwards, which is why an agent says so and is started again."""
    wild = tmp_path / "wild.py"
    wild.write_text(
        "import torch, triton, triton.language as tl\n"
        "@triton.jit\ndef k(p, n):\n    tl.store(p + n, 1.0)\n"
        "def paged_mqa_logits(*, out, **rest):\n    k[(1,)](out, 1 << 40)\n"
    )
    code = (
        "import json, sys, torch\nfrom kvcheck.agent import environment, main\n"
        "device = torch.device('cuda', 0)\nrunner = main.Runner(device, environment.collect(device)['device'])\n"
        "row = runner.run_case(json.loads(sys.argv[1]), lambda phase: None)\nprint(json.dumps([row['verdict'], row['premise']]))\n"
    )
    message = {"op": "paged_mqa_logits", "provider": str(wild), "params": {**LOGITS, "context_len": 64}, "seed": 42}
    done = subprocess.run([sys.executable, "-c", code, json.dumps(message)], capture_output=True, text=True, check=False)
    assert json.loads(done.stdout.splitlines()[-1]) == ["crash", "unknown"], done.stderr[-1000:]
