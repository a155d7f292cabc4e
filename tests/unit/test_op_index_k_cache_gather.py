"""The gather: references agree bit for bit, honest kernels pass for every layout and view, rows nobody asked for stay."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.agent import specs
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.layouts import shuffled
from kvcheck.agent.ops import index_k_cache_gather as op
from kvcheck_references.index_k_cache_gather import index_k_cache_gather as fast
from kvcheck_references.index_k_cache_gather_naive import index_k_cache_gather as naive

OP = "index_k_cache_gather"
AXES = specs.axes(OP)
DEFAULTS = {name: axis.default for name, axis in AXES.items()} | {"kv_dtype": "e4m3fn", "poison": "nan"}
TABLES = sorted(AXES["block_table"].choices)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 60), min_size=2, max_size=4),
    st.sampled_from([16, 48]),
    st.sampled_from([1, 3, 16, 32]),
    st.sampled_from(["block_flat", "shuffled"]),
    st.sampled_from(TABLES),
    st.sampled_from(["gaussian", "random_bytes"]),
    st.sampled_from(["contiguous", "pitched", "strided"]),
    st.integers(0, 99),
)
def test_references_agree(lengths, head_dim, block_size, layout, table, values, cache, seed):
    if layout == "shuffled" and not shuffled.fits(block_size, head_dim):
        layout = "block_flat"
    shape = {"batch": len(lengths), "context_len": lengths, "head_dim": head_dim, "block_size": block_size, "table_stride": "wider"}
    case = {**DEFAULTS, **shape, "layout": layout, "block_table": table, "values": values, "cache": cache}
    inputs = op.make_inputs(case, Generator(seed))
    one = fast(**inputs.tensors, **inputs.scalars, **inputs.initial, alloc=None)
    two = naive(**inputs.tensors, **inputs.scalars, **inputs.initial, alloc=None)
    for name, other in zip(("k", "k_scale"), two, strict=True):
        assert torch.equal(one[name].view(torch.uint8), other.contiguous().view(torch.uint8))
        assert torch.equal(one[name][sum(lengths) :], inputs.initial[name][sum(lengths) :])


def test_what_is_gathered_is_the_request_s_tokens_in_order():
    """The scale beacon says from which slot each row was read."""
    case = {**DEFAULTS, "values": "beacon_scale", "context_len": [5, 0, 3], "batch": 3, "block_size": 2}
    inputs = op.make_inputs(case, Generator(1))
    scale = fast(**inputs.tensors, **inputs.scalars, **inputs.initial, alloc=None)["k_scale"]
    table = inputs.tensors["block_table"].tolist()
    wanted = [table[request][p // 2] * 2 + p % 2 + 1 for request, length in ((0, 5), (2, 3)) for p in range(length)]
    assert scale[:8].tolist() == wanted and inputs.tensors["cu_seq_lens"].tolist() == [0, 5, 5, 8]


@pytest.mark.parametrize("layout", ["block_flat", "shuffled"])
def test_honest_torch_passes(judged, layout):
    for cache in sorted(AXES["cache"].choices):
        for table in TABLES:
            row = judged(OP, layout=layout, cache=cache, block_table=table, table_stride="wider", poison="nan", context_len=[300, 77])
            assert row["verdict"] == "pass", (cache, table, row["message"])


def test_random_bytes_are_as_good_as_any_for_a_copy(judged):
    assert judged(OP, values="random_bytes")["verdict"] == "pass"


def test_our_kernel_passes(interpreted):
    views = [dict(cache=cache, table_stride="wider", context_len=[300, 77]) for cache in ("pitched", "strided")]
    cases = [view | dict(layout=layout, values="random_bytes") for view in views for layout in ("block_flat", "shuffled")]
    cases += [dict(block_table=table, block_size=7, head_dim=48, context_len=[0, 1, 50], batch=3) for table in TABLES]
    cases += [dict(context_len=0), dict(context_len=1500, batch=1, block_size=1, block_table="reversed")]
    for case, row in zip(cases, interpreted(OP, cases), strict=True):
        assert row["verdict"] == "pass", (case, row["message"])


FAULTS = {
    "gathers_past_end": ("mismatch", "k", {}),
    "layout_mistaken": ("mismatch", "k", {}),
    "pages_taken_as_adjacent": ("mismatch", "k", {"cache": "strided"}),
    "table_rows_taken_as_adjacent": ("mismatch", "k", {"table_stride": "wider"}),
    "tokens_unwritten": ("unwritten", "k", {}),
}


def test_every_fault_is_expected():
    known = {name: specs.load("faults", name).data for name in specs.names("faults")}
    assert set(FAULTS) == {
        name for name, data in known.items() if OP in data["ops"] and data["base"] == "torch_eager" and "relation" not in data
    }


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_faults_are_caught(judged, fault):
    verdict, output, changes = FAULTS[fault]
    row = judged(OP, f"fault:{fault}", context_len=[300, 77], **changes)
    assert (row["verdict"], row["output"], row["check"]) == (verdict, output, "exact"), row["message"]


def test_a_scale_alone_that_is_wrong_is_told_by_its_output(judged, tmp_path):
    file = tmp_path / "scale.py"
    file.write_text(
        "from kvcheck.agent.providers import torch_eager\n"
        "def index_k_cache_gather(**a):\n    torch_eager.index_k_cache_gather(**a)\n    a['k_scale'][7] *= 2\n"
    )
    row = judged(OP, str(file))
    assert (row["verdict"], row["output"], row["first_bad"]["index"]) == ("mismatch", "k_scale", {"row": 7})
