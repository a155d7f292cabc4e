"""Our Triton kernels of every op on a real GPU, eager and replayed from a graph; and the faults that only a GPU shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvcheck.agent import specs

pytestmark = pytest.mark.gpu

OFFSETS = Path(__file__).resolve().parents[1] / "planted" / "gpu_offsets.py"
HEADS = [16, 32, 64, 128]
LONG = {"context_len": [65536, 0, 2049], "batch": 3}
CASES = [
    *(("paged_mqa_logits", {**LONG, "num_heads": heads, "block_size": 64, "next_n": 2}) for heads in HEADS),
    *(("mqa_logits", {"rows": 96, "tokens": 65536, "num_heads": heads}) for heads in HEADS),
    *(("mla_decode", {**LONG, "num_heads": heads, "page_size": 64, "num_splits": 16, "next_n": 2}) for heads in HEADS),
    *(("mla_decode", {"context_len": [8192, 0], "batch": 2, "kv_format": kind}) for kind in ("fp16", "e4m3fn", "fp8_656")),
    ("mla_decode", {"context_len": 65536, "page_size": 1, "selection": "topk", "values": "coded_attention"}),
    ("index_k_cache_write", {"tokens": 65536, "slots": "high_ids"}),
    ("index_k_cache_write", {"tokens": 4096, "scale_format": "fp32", "layout": "shuffled"}),
    ("index_k_cache_gather", {"context_len": [65536, 0], "layout": "shuffled"}),
    ("topk_per_row", {**LONG, "next_n": 2}),
    ("topk_slots", {"context_len": 65536, "rows": 64, "pool": "last"}),
    ("block_table", {"context_len": [65536, 0]}),
    ("mla_metadata", {"context_len": [65536, 0, 1], "batch": 3}),
]


@pytest.fixture(scope="module")
def runner():
    import torch

    from kvcheck.agent import environment, main

    device = torch.device("cuda", 0)
    return main.Runner(device, environment.collect(device)["device"])


def judge(runner, op, provider="triton", **params):
    defaults = {name: axis.default for name, axis in specs.axes(op).items()}
    return runner.run_case({"op": op, "provider": provider, "params": {**defaults, **params}, "seed": 9}, lambda phase: None)


@pytest.mark.parametrize("launch", ["eager", "graph"])
@pytest.mark.parametrize(("op", "params"), CASES, ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value.values())))
def test_our_kernels_pass(runner, op, params, launch):
    row = judge(runner, op, **params, launch=launch)
    assert row["verdict"] == "pass", row["message"]


@pytest.mark.parametrize("num_heads", HEADS)
def test_the_whole_path_passes(runner, num_heads):
    row = judge(runner, "indexer_mla_decode", context_len=[8192, 0, 2049], batch=3, next_n=2, topk=2048, num_heads=num_heads)
    assert row["verdict"] == "pass", row["message"]


def test_a_kernel_that_decides_on_the_host_is_wrong_when_replayed(runner, tmp_path):
    file = tmp_path / "host.py"
    file.write_text(
        "from kvcheck.agent.kernels import topk_slots as ours\n\nseen = []\n\n\n"
        "def topk_slots(*, block_table, **rest):\n"
        "    if not seen:\n        seen.append(block_table.clone())\n"
        "    ours.topk_slots(block_table=seen[0], **rest)\n"
    )
    row = judge(runner, "topk_slots", str(file), launch="graph", positions="prefix")
    assert row["verdict"] == "mismatch" and "metamorphic" not in row["also_failed"]


def test_rows_past_2_to_the_31_bytes_that_are_dropped_are_unwritten(runner):
    from kvcheck.cases.plan import plan

    (case,) = plan(["regressions/aiter_4244_row_offset"]).cases
    for provider, verdict in (("fault:rows_past_offset_dropped=2147483648", "unwritten"), ("triton", "pass")):
        row = runner.run_case({**case.request(), "provider": provider}, lambda phase: None)
        assert row["verdict"] == verdict, row["message"]


HIGH = {"num_blocks": 300_000, "block_table": "high_ids", "context_len": 4096, "num_heads": 32, "block_size": 64}


def test_an_offset_past_2_to_the_31_is_read_right(runner):
    row = judge(runner, "paged_mqa_logits", **HIGH)
    assert row["verdict"] == "pass", row["message"]


def test_wild_reads_clamped_to_zero_do_not_crash_and_are_caught(runner, monkeypatch):
    monkeypatch.setenv("PLANTED", "clamped_to_zero")
    row = judge(runner, "paged_mqa_logits", str(OFFSETS), **HIGH)
    assert row["verdict"] == "mismatch", row["message"]
    monkeypatch.setenv("PLANTED", "")
    assert judge(runner, "paged_mqa_logits", str(OFFSETS), **HIGH)["verdict"] == "pass"


@pytest.mark.parametrize("planted", ["rows_in_32_bits", "cache_in_32_bits"])
def test_32_bit_offsets_are_caught(planted):
    """In a process of its own: the wrapped address is an illegal access, after which a process has no device."""
    import json
    import os
    import subprocess
    import sys

    import torch

    torch.cuda.empty_cache()  # what earlier tests left cached here is not there for another process
    rows = {"batch": 2080, "max_model_len": 1 << 20, "context_len": 64, "num_heads": 8, "block_size": 64, "topk": 2048}
    params = {**{name: axis.default for name, axis in specs.axes("paged_mqa_logits").items()}, **(rows if planted[0] == "r" else HIGH)}
    code = (
        "import json, sys, torch\nfrom kvcheck.agent import environment, main\n"
        "device = torch.device('cuda', 0)\nrunner = main.Runner(device, environment.collect(device)['device'])\n"
        "row = runner.run_case(json.loads(sys.argv[1]), lambda phase: None)\nprint(json.dumps([row['verdict'], row['message']]))\n"
    )
    found = {}
    for provider, fault in ((str(OFFSETS), planted), ("triton", "")):
        message = {"op": "paged_mqa_logits", "provider": provider, "params": params, "seed": 9}
        environment = {**os.environ, "PLANTED": fault}
        done = subprocess.run([sys.executable, "-c", code, json.dumps(message)], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr[-1000:]
        found[provider] = json.loads(done.stdout.splitlines()[-1])
    assert found[str(OFFSETS)][0] in ("crash", "unwritten", "mismatch", "nonfinite", "out_of_bounds_write"), found
    assert found["triton"][0] == "pass", found
