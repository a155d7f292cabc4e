"""Prefill logits: references agree, the bound holds and is tight, honest kernels pass for every window, faults are named."""

from __future__ import annotations

import importlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.agent import specs
from kvcheck.agent.inputs import windows
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.judge.expected import mqa_logits as expected
from kvcheck.agent.ops import mqa_logits
from kvcheck.agent.precision import parse
from kvcheck_references.mqa_logits import mqa_logits as fast
from kvcheck_references.mqa_logits_naive import mqa_logits as naive

AXES = specs.axes("mqa_logits")
DEFAULTS = {name: axis.default for name, axis in AXES.items()} | {"kv_dtype": "e4m3fn", "poison": "nan"}
WINDOWS = sorted(AXES["window"].choices)
SMALL = dict(rows=40, tokens=300, num_heads=5)


def make(seed=1, **changes):
    return mqa_logits.make_inputs({**DEFAULTS, **changes}, Generator(seed))


def call(function, inputs):
    return function(**inputs.tensors, **inputs.scalars, out=None, alloc=None)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 40),
    st.integers(1, 5),
    st.sampled_from([16, 48]),
    st.sampled_from(WINDOWS),
    st.sampled_from(["e4m3fn", "e4m3fnuz"]),
    st.sampled_from(["gaussian", "heavy_tail", "signed_zero", "exact_int"]),
    st.integers(0, 99),
)
def test_references_agree(rows, tokens, num_heads, head_dim, window, kv_dtype, values, seed):
    shape = {"rows": rows, "tokens": tokens, "num_heads": num_heads, "head_dim": head_dim}
    inputs = make(seed, window=window, kv_dtype=kv_dtype, values=values, **shape)
    sides = [call(function, inputs) for function in (fast, naive)]
    inside = inputs.inside["logits"]
    for side in sides:
        assert torch.equal(torch.isfinite(side), inside) and (side[~inside] == -torch.inf).all()
    assert torch.allclose(*(side[inside] for side in sides), rtol=1e-12, atol=1e-12)


def test_windows_are_what_they_say():
    build = lambda kind, rows, tokens: [side.tolist() for side in windows.build(kind, rows, tokens, Generator(5))]  # noqa: E731
    assert build("causal", 3, 5) == [[0, 0, 0], [3, 4, 5]]
    assert build("one_short", 3, 3) == [[0, 0, 0], [0, 1, 2]]
    assert build("edges", 4, 200) == [[0, 199, 127, 0], [1, 200, 129, 1]] or build("edges", 4, 200)[0][:2] == [0, 199]
    first, end = build("packed", 30, 200)
    assert len(set(first)) == 3 and max(end) <= 200 and all(a <= b for a, b in zip(first, end, strict=True))
    first, end = (torch.tensor(side) for side in build("ragged", 400, 100))
    assert (end < first).any() and (end == first).any() and (end > first).sum() > 200
    assert build("empty", 2, 9) == [[0, 0], [0, 0]]


def test_windows_past_the_keys_are_clamped_by_both_references():
    inputs = make(rows=3, tokens=20, num_heads=2, window="full")
    inputs.tensors["ks"][:] = torch.tensor([-5, 18, 30])
    inputs.tensors["ke"][:] = torch.tensor([4, 25, 40])
    for function in (fast, naive):
        assert torch.isfinite(call(function, inputs)).sum(1).tolist() == [4, 2, 0]


@pytest.mark.parametrize("window", ["packed", "ragged", "edges"])
@pytest.mark.parametrize("model", ["fp32_any", "hopper_wgmma_fp8"])
def test_expected_is_the_reference_and_the_bound_that_of_the_paged_op(window, model):
    """With every token in one page and one head count the two ops are the same sum: so are their bounds."""
    inputs = make(window=window, rows=7, tokens=130, num_heads=6, poison="none")
    value, bound = expected.expected(inputs, inputs.tensors, parse(model))["logits"]
    inside = inputs.inside["logits"]
    assert torch.equal(value, call(fast, inputs)) and (bound[~inside] == 0).all() and (bound[inside] > 0).all()
    from kvcheck.agent.judge import bounds
    from kvcheck.agent.layouts import block_flat

    t = inputs.tensors
    cache = torch.zeros(1, 130, 1, 132, dtype=torch.uint8)
    block_flat.scatter(cache, torch.arange(130), t["k"].view(torch.uint8), t["k_scale"])
    paged = {"q": t["q"][:, None], "kv_cache": cache.expand(1, -1, -1, -1), "weights": t["weights"]}
    paged |= {"context_lens": torch.full((7,), 130, dtype=torch.int32), "block_table": torch.zeros(7, 1, dtype=torch.int32)}
    scalars = {"max_model_len": 130, "block_size": 130, "kv_dtype": "e4m3fn"}
    theirs = bounds.logits_bound(paged, scalars, torch.full((7,), 130), parse(model), False)
    assert torch.allclose(bound[inside], theirs[inside], rtol=1e-9)


@pytest.mark.parametrize("window", WINDOWS)
def test_honest_torch_passes_for_every_window(judged, window):
    for kv_dtype in ("e4m3fn", "e4m3fnuz"):
        row = judged("mqa_logits", window=window, kv_dtype=kv_dtype, poison="nan", **SMALL)
        assert row["verdict"] == "pass", row["message"]
        assert (window == "empty") == ("max_bound_ratio" in row["trivial"])


def test_honest_torch_passes_for_every_distribution(judged):
    for values in sorted(AXES["values"].choices):
        row = judged("mqa_logits", values=values, scale="decades", window="ragged", **SMALL)
        assert row["verdict"] == "pass", (values, row["message"])


def test_our_kernel_passes(interpreted):
    cases = [dict(window=window, rows=37, tokens=300, num_heads=heads) for window in WINDOWS for heads in (5, 32)]
    cases += [dict(values=values, rows=5, tokens=65, num_heads=17, kv_dtype="e4m3fnuz") for values in sorted(AXES["values"].choices)]
    cases += [dict(rows=1, tokens=1, num_heads=1, head_dim=16, window="full"), dict(rows=17, tokens=2100, num_heads=70, head_dim=48)]
    for case, row in zip(cases, interpreted("mqa_logits", cases), strict=True):
        assert row["verdict"] == "pass", (case, row["message"])


FAULTS = {
    "columns_from_window_start": ("nonfinite", {}),
    "fn_read_as_fnuz": ("mismatch", {}),
    "head_dropped": ("mismatch", {}),
    "tiles_counted_from_zero": ("nonfinite", {}),
    "window_end_inclusive": ("nonfinite", {}),
    "window_start_ignored": ("nonfinite", {}),
}


def test_every_fault_is_expected():
    known = {name: specs.load("faults", name).data for name in specs.names("faults")}
    assert set(FAULTS) == {name for name, data in known.items() if "mqa_logits" in data["ops"] and "relation" not in data}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_faults_are_caught(judged, fault):
    verdict, changes = FAULTS[fault]
    row = judged("mqa_logits", f"fault:{fault}", **{**SMALL, **changes})
    assert row["verdict"] == verdict, row["message"]
    assert {"row", "token"} == row["first_bad"]["index"].keys()


@pytest.mark.parametrize("fault", ["columns_from_window_start", "tiles_counted_from_zero", "window_start_ignored"])
def test_what_is_wrong_only_where_windows_start_late(judged, fault):
    assert judged("mqa_logits", f"fault:{fault}", window="causal", **SMALL)["verdict"] == "pass"


def test_the_message_names_the_window(judged):
    row = judged("mqa_logits", "fault:window_end_inclusive", window="causal", rows=3, tokens=10, num_heads=2)
    assert row["first_bad"]["index"] == {"row": 0, "token": 8} and "window [0, 8)" in row["message"]


@pytest.mark.parametrize("part", ["zero scale", "scale", "weight", "key"])
def test_a_value_that_no_kernel_can_compute_with_is_an_invalid_case(judged, part, monkeypatch):
    honest = mqa_logits.make_inputs

    def broken(case, generator):
        inputs = honest(case, generator)
        if part == "key":
            inputs.tensors["k"].view(torch.uint8)[1, 3] = 0x7F
        elif part == "weight":
            inputs.tensors["weights"][0, 0] = float("nan")
        else:
            inputs.tensors["k_scale"][1] = 0.0 if part == "zero scale" else float("inf")
        return inputs

    monkeypatch.setattr(importlib.import_module("kvcheck.agent.ops.mqa_logits"), "make_inputs", broken)
    row = judged("mqa_logits", window="full", **SMALL)
    assert row["verdict"] == "invalid_case", row["message"]
