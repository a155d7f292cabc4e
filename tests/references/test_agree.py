"""Two references of an op agree, on random and on awkward inputs, and never look at what they must not."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvcheck.agent import specs
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.layouts import fp8
from kvcheck.agent.ops import paged_mqa_logits, topk_per_row

LOGITS = {name: axis.default for name, axis in specs.axes("paged_mqa_logits").items()}
TOPK = {name: axis.default for name, axis in specs.axes("topk_per_row").items()}
QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def both(op, inputs):
    fast = getattr(importlib.import_module(f"kvcheck_references.{op}"), op)
    naive = getattr(importlib.import_module(f"kvcheck_references.{op}_naive"), f"{op}_naive")
    return [side(**inputs.tensors, **inputs.scalars, out=None, alloc=None) for side in (fast, naive)]


@st.composite
def lengths(draw, longest):
    batch, next_n = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    one = st.integers(0, longest)
    entry = st.lists(one, min_size=next_n, max_size=next_n) if draw(st.booleans()) else one
    return {"batch": batch, "next_n": next_n, "context_len": draw(st.lists(entry, min_size=batch, max_size=batch))}


@QUICK
@given(
    lengths(40),
    st.integers(1, 9),
    st.sampled_from([16, 32, 48]),
    st.integers(1, 7),
    st.sampled_from(["e4m3fn", "e4m3fnuz"]),
    st.sampled_from(["gaussian", "heavy_tail", "relu_sparse", "exact_int"]),
    st.sampled_from(["shuffled", "contiguous", "wide_garbage", "wide_minus_one", "high_ids"]),
    st.sampled_from(["nan", "inf", "finite_beacon"]),
    st.integers(0, 99),
)
def test_logits_agree(shape, num_heads, head_dim, block_size, kv_dtype, values, table, poison, seed):
    case = {**LOGITS, **shape, "num_heads": num_heads, "head_dim": head_dim, "block_size": block_size, "kv_dtype": kv_dtype}
    case.update(values=values, block_table=table, poison=poison)
    inputs = paged_mqa_logits.make_inputs(case, Generator(seed))
    fast, naive = both("paged_mqa_logits", inputs)
    inside = torch.arange(fast.shape[1]) < inputs.row_lengths[:, None]
    assert torch.equal(torch.isfinite(fast), inside) and torch.equal(torch.isfinite(naive), inside)
    assert (fast[~inside] == -torch.inf).all()
    assert torch.allclose(fast[inside], naive[inside], rtol=1e-12, atol=1e-12)


def test_nan_goes_through_relu_in_both():
    inputs = paged_mqa_logits.make_inputs({**LOGITS, "context_len": 4, "num_heads": 2, "kv_dtype": "e4m3fn", "poison": "zero"}, Generator(0))
    page = inputs.tensors["kv_cache"][int(inputs.tensors["block_table"][0, 0])].view(-1)
    page[2 * 128 + 5] = 0x7F
    for side in both("paged_mqa_logits", inputs):
        assert torch.isnan(side[0, :4]).tolist() == [False, False, True, False]


@QUICK
@given(lengths(60), st.integers(1, 70), st.sampled_from(sorted(specs.axes("topk_per_row")["values"].choices)), st.sampled_from(["nan", "inf", "large"]))
def test_topk_agrees(shape, topk, values, poison):
    inputs = topk_per_row.make_inputs({**TOPK, **shape, "topk": topk, "values": values, "poison": poison}, Generator(3))
    fast, naive = both("topk_per_row", inputs)
    assert torch.equal(fast, naive) and fast.dtype == torch.int32


def test_topk_by_hand():
    logits = torch.tensor([[1.0, 3.0, 3.0, -torch.inf, 2.0, torch.inf]])
    lens = torch.tensor([5], dtype=torch.int32)
    for side in (
        importlib.import_module("kvcheck_references.topk_per_row").topk_per_row,
        importlib.import_module("kvcheck_references.topk_per_row_naive").topk_per_row_naive,
    ):
        assert side(logits, lens, topk=2, next_n=1, out=None, alloc=None).tolist() == [[1, 2]]
        assert side(logits, lens, topk=7, next_n=1, out=None, alloc=None).tolist() == [[0, 1, 2, 3, 4, -1, -1]]


def test_naive_fp8_is_torchs():
    from kvcheck_references.paged_mqa_logits_naive import fp8_number

    for kv_dtype in fp8.MAXIMUM:
        theirs = torch.arange(256, dtype=torch.uint8).view(fp8.torch_dtype(kv_dtype)).double()
        ours = torch.tensor([fp8_number(code, kv_dtype) for code in range(256)]).double()
        assert torch.equal(ours.isnan(), theirs.isnan()) and torch.equal(ours.nan_to_num(), theirs.nan_to_num())


@pytest.mark.timeout(170)
def test_a_long_batch_fits_in_two_gibibytes():
    """64 heads, batch 8 at 50,688 tokens each: what grows with the length is a quarter of the case that is promised."""
    script = """
import resource, torch
from kvcheck.agent import main, specs
torch.set_num_threads(1)
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
case = {n: a.default for n, a in specs.axes("paged_mqa_logits").items()}
case.update(batch=8, context_len=50688, block_size=64, num_heads=64)
runner = main.Runner("cpu", {"type": "cpu", "arch": "cpu"})
before = peak()
row = runner.run_case({"op": "paged_mqa_logits", "provider": "torch_eager", "params": case, "seed": 1, "premise_only": True}, lambda p: None)
print(row["premise"], peak() - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=160)
    premise, grown = done.stdout.split()
    assert premise == "holds" and float(grown) < 0.75, done.stderr
