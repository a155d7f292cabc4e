"""Positions to slots: references agree, -1 and columns stay, what the table does not cover is -1, strides are the pages' own."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.agent import specs
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.ops import topk_slots as op
from kvcheck_references.topk_slots import topk_slots as fast
from kvcheck_references.topk_slots_naive import topk_slots as naive

OP = "topk_slots"
AXES = specs.axes(OP)
DEFAULTS = {name: axis.default for name, axis in AXES.items()}
POSITIONS = sorted(AXES["positions"].choices)
SMALL = dict(rows=5, topk=100, context_len=[300, 0, 77])


@settings(max_examples=80, deadline=None)
@given(
    st.integers(1, 6),
    st.integers(1, 40),
    st.lists(st.integers(0, 90), min_size=2, max_size=4),
    st.sampled_from([1, 3, 16]),
    st.sampled_from([0, 1, 7]),
    st.sampled_from(POSITIONS),
    st.sampled_from(["shuffled", "shared_prefix", "wide_minus_one", "high_ids"]),
    st.sampled_from(["needed", "last"]),
    st.integers(0, 99),
)
def test_references_agree(rows, topk, lengths, block_size, gap, positions, table, pool, seed):
    shape = {"rows": rows, "topk": topk, "batch": len(lengths), "context_len": lengths, "block_size": block_size}
    case = {**DEFAULTS, **shape, "block_stride": block_size + gap, "positions": positions, "block_table": table, "pool": pool}
    inputs = op.make_inputs({**case, "table_stride": "wider"}, Generator(seed))
    sides = [side(**inputs.tensors, **inputs.scalars, out=None, alloc=None) for side in (fast, naive)]
    assert torch.equal(*sides) and sides[0].max() < 2**31
    assert ((sides[0] == -1) | (inputs.tensors["topk_positions"] >= 0)).all()


@pytest.mark.parametrize("function", [fast, naive])
def test_by_hand(function):
    table = torch.tensor([[5, 7], [2, 0]], dtype=torch.int32)
    positions = torch.tensor([[0, 63, 64, -1, 127, 128], [64, -7, 1, 2**31 - 1, 0, 65]], dtype=torch.int32)
    owner = torch.tensor([0, 1], dtype=torch.int32)
    slots = function(positions, table, owner, block_size=64, block_stride=80, out=None, alloc=None).tolist()
    assert slots == [[400, 463, 560, -1, 623, -1], [0, -1, 161, -1, 160, 1]]


@pytest.mark.parametrize("positions", POSITIONS)
def test_honest_torch_passes(judged, positions):
    for changes in ({"block_stride": 80}, {"pool": "last", "table_stride": "wider"}, {"block_size": 1, "block_table": "wide_minus_one"}):
        row = judged(OP, positions=positions, **{**SMALL, **changes})
        assert row["verdict"] == "pass", (changes, row["message"])


def test_our_kernel_passes(interpreted):
    cases = [dict(positions=p, pool=pool, block_stride=80, table_stride="wider", **SMALL) for p in POSITIONS for pool in ("needed", "last")]
    cases += [dict(rows=1, topk=1, batch=1, context_len=1, block_size=1), dict(rows=3, topk=2048, block_size=48, positions="past_table")]
    for case, row in zip(cases, interpreted(OP, cases), strict=True):
        assert row["verdict"] == "pass", (case, row["message"])


FAULTS = {
    "columns_compacted": {},
    "padding_mapped": {},
    "past_table_clamped": {"positions": "past_table"},
    "stride_taken_as_block_size": {"block_stride": 80},
    "table_rows_taken_as_adjacent": {"table_stride": "wider"},
}


def test_every_fault_is_expected():
    assert set(FAULTS) == {name for name in specs.names("faults") if OP in specs.load("faults", name).data["ops"]}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_faults_are_caught(judged, fault):
    row = judged(OP, f"fault:{fault}", **{**SMALL, **FAULTS[fault]})
    assert (row["verdict"], row["check"]) == ("mismatch", "exact"), row["message"]


def test_compaction_is_right_where_padding_is_at_the_end(judged):
    assert judged(OP, "fault:columns_compacted", positions="prefix", **SMALL)["verdict"] == "pass"


def test_a_slot_past_32_bits_is_no_case(judged):
    row = judged(OP, positions="past_context", block_table="wide_garbage", **SMALL)
    assert row["verdict"] == "invalid_case" and "32-bit" in row["message"]
