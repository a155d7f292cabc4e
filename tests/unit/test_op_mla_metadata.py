"""MLA metadata: references agree, the last page of BUGS 5 is 1, and wrong units are caught."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.agent import main, specs
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.ops import mla_metadata
from kvcheck_references import mla_metadata as fast
from kvcheck_references import mla_metadata_naive as naive

AXES = specs.axes("mla_metadata")
DEFAULTS = {name: axis.default for name, axis in AXES.items()}
SMALL = dict(batch=5, context_len=[127, 0, 1, 64, 130], block_size=64)


@pytest.fixture(scope="module")
def runner():
    return main.Runner("cpu", {"type": "cpu", "arch": "cpu", "name": "cpu"})


def judge(runner, provider="torch_eager", **params):
    message = {"op": "mla_metadata", "provider": provider, "params": {**DEFAULTS, **params}, "seed": 42}
    return runner.run_case(message, lambda phase: None)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 70), min_size=1, max_size=4),
    st.sampled_from([(1, 1), (1, 16), (4, 16), (16, 16), (3, 12)]),
    st.sampled_from(["shuffled", "wide_garbage", "wide_minus_one", "contiguous", "high_ids"]),
    st.integers(1, 6),
    st.integers(1, 40),
    st.integers(0, 99),
)
def test_references_agree(lens, sizes, table, splits, granularity, seed):
    case = dict(batch=len(lens), context_len=lens, page_size=sizes[0], block_size=sizes[1], block_table=table)
    case |= dict(num_splits=splits, split_granularity=granularity)
    inputs = mla_metadata.make_inputs({**DEFAULTS, **case}, Generator(seed))
    nothing = dict.fromkeys((*inputs.outputs, "alloc"))
    one = fast.mla_metadata(**inputs.tensors, **inputs.scalars, **nothing)
    two = naive.mla_metadata(**inputs.tensors, **inputs.scalars, **nothing)
    for (name, side), other in zip(one.items(), two, strict=True):
        assert torch.equal(side, other) and side.shape == inputs.outputs[name][0]
    pages = one["kv_indptr"].diff()
    assert ((pages - 1) * sizes[0] + one["last_page_len"]).tolist() == lens


def test_by_hand():
    table = torch.tensor([[5, 2], [7, 0]], dtype=torch.int32)
    nothing = dict.fromkeys(("kv_indptr", "kv_indices", "last_page_len", "splits_indptr", "alloc"))
    sizes = dict(page_size=2, block_size=4, num_splits=2, split_granularity=4)
    made = fast.mla_metadata(table, torch.tensor([6, 4], dtype=torch.int32), **sizes, **nothing)
    assert [made[name].tolist() for name in made] == [[0, 3, 5], [10, 11, 4, 14, 15], [2, 2], [0, 2, 3]]


@pytest.mark.parametrize("reference", [fast, naive])
def test_split_counts_by_hand(reference):
    lens = torch.tensor([0, 1, 64, 65, 0, 129, 10000], dtype=torch.int32)
    table = torch.arange(len(lens) * 157, dtype=torch.int32).view(len(lens), 157)
    nothing = dict.fromkeys(("kv_indptr", "kv_indices", "last_page_len", "splits_indptr", "alloc"))
    made = reference.mla_metadata(table, lens, page_size=64, block_size=64, num_splits=3, split_granularity=64, **nothing)
    splits = made["splits_indptr"] if isinstance(made, dict) else made[3]
    assert splits.diff().tolist() == [0, 1, 1, 2, 0, 3, 3] and splits[0] == 0


@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_an_honest_builder_passes(runner, page_size):
    for table in sorted(AXES["block_table"].choices):
        row = judge(runner, page_size=page_size, block_table=table, **SMALL)
        assert row["verdict"] == "pass", (table, row["message"])


FAULTS = {
    "block_ids_for_pages": ("kv_indices", 16),
    "indptr_counts_tokens": ("kv_indptr", 16),
    "last_page_len_is_seq_len": ("last_page_len", 1),
    "last_page_len_of_full_page_zero": ("last_page_len", 64),
    "split_of_empty_request": ("splits_indptr", 16),
    "splits_capped_not_counted": ("splits_indptr", 1),
}


def test_every_fault_of_the_op_is_expected():
    assert set(FAULTS) == {name for name in specs.names("faults") if "mla_metadata" in specs.load("faults", name).data["ops"]}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_faults_are_caught(runner, fault):
    output, page_size = FAULTS[fault]
    row = judge(runner, f"fault:{fault}", page_size=page_size, **SMALL)
    assert (row["verdict"], row["output"]) == ("mismatch", output), row["message"]


def test_bugs_5_shows_both_numbers(runner):
    row = judge(runner, "fault:last_page_len_is_seq_len", context_len=127)
    assert (row["first_bad"]["expected"], row["first_bad"]["actual"]) == (1, 127)


def test_a_page_that_does_not_divide_the_block_is_an_invalid_case(runner):
    row = judge(runner, page_size=48, block_size=64)
    assert row["verdict"] == "invalid_case" and "does not divide" in row["message"]


INTERPRETED = """
import os
os.environ["TRITON_INTERPRET"] = "1"
from kvcheck.agent import main, specs
runner = main.Runner("cpu", {"type": "cpu", "arch": "cpu", "name": "cpu"})
defaults = {name: axis.default for name, axis in specs.axes("mla_metadata").items()}
for case in (
    dict(context_len=[127, 0, 1, 64, 130], batch=5),
    dict(context_len=[127, 0, 1, 64, 2300], batch=5, page_size=16, block_table="wide_garbage", num_splits=5, split_granularity=100),
):
    request = {"op": "mla_metadata", "provider": "triton", "params": {**defaults, **case}, "seed": 3}
    row = runner.run_case(request, lambda phase: None)
    print(row["verdict"], row["message"])
"""


@pytest.mark.timeout(170)
def test_our_triton_kernel_passes_under_the_interpreter():
    done = subprocess.run([sys.executable, "-c", INTERPRETED], capture_output=True, text=True, timeout=160, env={**os.environ})
    assert done.stdout.split("\n")[:-1] == ["pass "] * 2, done.stdout + done.stderr[-2000:]
