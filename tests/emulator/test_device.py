"""The emulated device as cases meet it: honest kernels pass, each planted fault is found by its own check alone, with place and lanes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="compiling kernels needs triton")

from kvcheck.agent import emulated, emulator, main, specs

PLANTED = Path(__file__).resolve().parents[1] / "planted" / "emulated.py"
DEFAULTS = {op: {name: axis.default for name, axis in specs.axes(op).items()} for op in ("paged_mqa_logits", "topk_per_row")}
SMALL = {"context_len": [70, 256], "batch": 2, "num_heads": 16, "block_size": 16, "topk": 64, "max_model_len": 256}
VERDICTS = {
    "out_of_bounds_read": "crash",
    "out_of_bounds_write": "out_of_bounds_write",
    "race": "nondeterministic",
    "uninitialised_read": "crash",
    "uninitialised_register": "crash",
    "missing_wait": "crash",
    "input_write": "input_mutated",
    "clamped_access": "pass",
}
pytestmark = [pytest.mark.xdist_group("emulated_device")]


@pytest.fixture(scope="module")
def judge():
    """Runs one case on an emulated device."""
    torch.set_num_threads(1)
    runners = {}

    def run(arch="gfx950", provider="triton", op="paged_mqa_logits", off=(), **params):
        key = (arch, tuple(off))
        if key not in runners:
            runners[key] = main.Runner("cpu", emulated.facts(arch, {"name": "host"}, off), emulated.EmulatedDevice(arch, off))
        params = {**DEFAULTS[op], **(SMALL if op == "paged_mqa_logits" else {}), **params}
        return runners[key].run_case({"op": op, "provider": provider, "params": params, "seed": 3}, lambda phase: None)

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TRITON_INTERPRET", raising=False)
        yield run


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("next_n", [1, 2])
def test_our_logits_pass_in_the_card_s_own_format(judge, arch, next_n):
    row = judge(arch, next_n=next_n, poison="auto", kv_dtype="auto")
    assert row["verdict"] == "pass", row["message"]
    assert row["params"]["kv_dtype"] == {"gfx942": "e4m3fnuz", "gfx950": "e4m3fn"}[arch] and row["params"]["poison"] == "nan"
    assert 0 < row["metrics"]["max_bound_ratio"] < 0.05 and row["findings"] == []
    assert f"native FP8, compiled for {arch}" in row["dispatch"]


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_our_selection_passes(judge, arch):
    row = judge(arch, op="topk_per_row", context_len=[300, 0, 64, 65], batch=4, topk=64, values="ties")
    assert row["verdict"] == "pass", row["message"]


@pytest.mark.parametrize("kind", emulator.KINDS)
def test_a_planted_fault_is_found_by_its_own_check_alone(judge, kind, monkeypatch):
    monkeypatch.setenv("PLANTED", kind)
    row = judge(provider=str(PLANTED))
    assert row["verdict"] == VERDICTS[kind], row["message"]
    assert {found["kind"] for found in row["findings"]} == {kind}
    found = row["findings"][0]
    assert "emulated.py:" in found["source"] and found["instruction"] and found["lanes"] > 0
    if kind != "clamped_access":
        assert row["first_bad"]["kind"] == kind and row["check"] == kind and row["also_failed"] == []
    off = judge(provider=str(PLANTED), off=(kind,))
    assert off["verdict"] == "pass" and off["findings"] == [], off["message"]


def test_the_honest_kernel_beside_it_has_no_finding(judge, monkeypatch):
    monkeypatch.delenv("PLANTED", raising=False)
    row = judge(provider=str(PLANTED))
    assert row["verdict"] == "pass" and row["findings"] == []


def test_out_of_bounds_names_tensor_offset_and_source_line(judge, monkeypatch):
    monkeypatch.setenv("PLANTED", "out_of_bounds_read")
    where = judge(provider=str(PLANTED))["first_bad"]
    line = 1 + PLANTED.read_text().split("\n").index("    tl.store(y + tl.arange(0, BLOCK), tl.load(x + i, mask=i < n, other=0))")
    assert (where["tensor"], where["offset"], where["size"], where["lanes"]) == ("x", 1024, 1024, 8)
    assert where["source"].endswith(f"emulated.py:{line}")


def test_scratch_of_one_launch_is_written_for_the_next_whatever_its_bytes(judge, tmp_path):
    file = tmp_path / "passes_on.py"
    file.write_text(PLANTED.read_text().replace("def uninitialised_read(weights, alloc):", "def passes_on(weights, alloc):\n" + PASSES_ON))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLANTED", "passes_on")
        row = judge(provider=str(file))
    assert row["verdict"] == "pass" and row["findings"] == [], row["message"]


PASSES_ON = """    numbers = torch.arange(256, dtype=torch.int32) * 0x01010101  # every byte there is, so some equal those of fresh scratch
    between = alloc((256,), torch.int32, None)
    copies[(1,)](numbers, between, 0, 256, BLOCK=256)
    copies[(1,)](between, alloc((256,), torch.int32, 0), 0, 256, BLOCK=256)


def unused(weights, alloc):
"""
