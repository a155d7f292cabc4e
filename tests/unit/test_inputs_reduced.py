"""Data reduced to what a failure needs: which keys are zero, which pages are one, and that nobody honest is blamed for it."""

from __future__ import annotations

import pytest
import torch

from kvcheck.agent import specs
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.layouts import block_flat, mla
from kvcheck.agent.ops import index_k_cache_write, mla_decode, mqa_logits, paged_mqa_logits
from kvcheck.cases import values

BOTH = {"nonzero_keys": [2, 21], "distinct_pages": [0, 2]}
LOGITS = {"batch": 2, "context_len": [30, 25], "num_heads": 4, "head_dim": 32, "block_size": 8, "topk": 4}
MLA = {"batch": 2, "context_len": [30, 25], "num_heads": 2, "head_dim": 96, "head_dim_v": 80, "page_size": 8}
HONEST = [
    ("paged_mqa_logits", LOGITS | BOTH),
    ("paged_mqa_logits", LOGITS | BOTH | {"block_table": "shared_prefix", "scale": "decades", "values": "beacon_head"}),
    ("paged_mqa_logits", LOGITS | {"nonzero_keys": []}),
    ("mqa_logits", {"rows": 5, "tokens": 40, "num_heads": 3, "head_dim": 48, "nonzero_keys": [7]}),
    ("index_k_cache_write", {"tokens": 12, "head_dim": 48, "block_size": 7, "nonzero_keys": [0, 5]}),
    ("index_k_cache_gather", {"context_len": [40, 33], "head_dim": 48, "block_size": 32, "layout": "shuffled"} | BOTH),
    ("mla_decode", MLA | BOTH),
    ("mla_decode", MLA | BOTH | {"head_dim": 576, "head_dim_v": 512, "kv_format": "fp8_656", "scale": "decades"}),
    ("mla_decode", MLA | {"kv_format": "e4m3fnuz", "distinct_pages": []}),
    ("indexer_mla_decode", {"batch": 2, "context_len": [40, 9], "index_heads": 2, "index_head_dim": 32, "num_heads": 2, "topk": 8,
                            "block_size": 8} | BOTH),
]  # fmt: skip


def made(module, **params):
    """The inputs of a case, with the defaults of the axes that it does not name."""
    known = {name: axis.default for name, axis in specs.axes(module.SPEC["op"]).items()}
    given = {"kv_dtype": "e4m3fn", "poison": "finite_beacon"}
    return module.make_inputs({**known, **{name: given[name] for name in given if name in known}, **params}, Generator(42))


@pytest.mark.parametrize(("op", "params"), HONEST)
def test_an_honest_kernel_passes_on_reduced_data(judged, op, params):
    row = judged(op, **params)
    assert row["verdict"] == "pass", row["message"]


def test_the_keys_that_are_named_keep_their_bytes_and_the_others_are_zero_with_scale_1():
    whole, some = made(paged_mqa_logits, **LOGITS), made(paged_mqa_logits, **LOGITS, nonzero_keys=[2, 21])
    table = whole.tensors["block_table"].long()
    assert torch.equal(table, some.tensors["block_table"].long())
    for request, length in enumerate(LOGITS["context_len"]):
        position = torch.arange(length)
        slots = table[request, position // 8] * 8 + position % 8
        codes, scales = block_flat.gather(some.tensors["kv_cache"], slots)
        before = block_flat.gather(whole.tensors["kv_cache"], slots)
        kept = torch.isin(position, torch.tensor([2, 21]))
        assert torch.equal(codes[kept], before[0][kept]) and torch.equal(scales[kept], before[1][kept]) and bool(codes[kept].any())
        assert not codes[~kept].any() and (scales[~kept] == 1).all()


def test_pages_that_are_not_distinct_are_one_page_of_zeros():
    whole, some = made(paged_mqa_logits, **LOGITS), made(paged_mqa_logits, **LOGITS, distinct_pages=[0, 2])
    before, table = (inputs.tensors["block_table"].long() for inputs in (whole, some))
    assert torch.equal(table[:, [0, 2]], before[:, [0, 2]])
    assert (table[:, [1, 3]] == before[0, 1]).all(), "both requests have four pages of eight"
    codes, _ = block_flat.gather(some.tensors["kv_cache"], before[0, 1] * 8 + torch.arange(8))
    assert not codes.any()


def test_padding_columns_stay():
    some = made(paged_mqa_logits, **LOGITS, block_table="wide_minus_one", distinct_pages=[])
    assert (some.tensors["block_table"][:, 4:] == -1).all() and len(some.tensors["block_table"][:, :4].unique()) == 1


@pytest.mark.parametrize("kv_format", ["bf16", "fp16", "e4m3fn", "e4m3fnuz", "fp8_656"])
def test_latents_that_are_not_named_decode_to_zero(kv_format):
    dims = {"head_dim": 576, "head_dim_v": 512} if kv_format == "fp8_656" else {}
    inputs = made(mla_decode, **MLA | dims, kv_format=kv_format, nonzero_keys=[2])
    cache, first = inputs.tensors["kv_cache"], inputs.tensors["kv_indices"][0].long()
    numbers = mla.decode(cache[first].flatten(0, 1).flatten(1).contiguous(), kv_format, 1.0)
    assert numbers[2].any() and not numbers[[0, 1, 3, 4, 5, 6, 7]].any()


def test_keys_of_the_writer_and_of_prefill():
    assert made(index_k_cache_write, tokens=6, nonzero_keys=[4]).tensors["k"].any(1).tolist() == [False] * 4 + [True, False]
    keys = made(mqa_logits, tokens=6, rows=2, window="full", nonzero_keys=[4]).tensors["k"].view(torch.uint8)
    assert keys.any(1).tolist() == [False] * 4 + [True, False]


@pytest.mark.parametrize("axis", ["nonzero_keys", "distinct_pages"])
def test_data_that_cannot_be_reduced_is_an_invalid_case(judged, axis):
    assert judged("mla_decode", **MLA, values="coded_attention", **{axis: [1]})["verdict"] == "invalid_case"
    assert judged("paged_mqa_logits", **LOGITS, values="random_bytes", **{axis: [1]})["verdict"] == "invalid_case"


def test_the_axes_are_there_without_being_listed():
    known = specs.axes("paged_mqa_logits")
    assert "nonzero_keys" in known and "nonzero_keys" not in list(known) and known["distinct_pages"].type == "positions"
    assert "distinct_pages" not in specs.axes("index_k_cache_write") and "nonzero_keys" not in specs.axes("block_table")


@pytest.mark.parametrize("value", [[], [0], [3, 17]])
def test_positions_are_written_and_read_back(value):
    axis = specs.axes("mla_decode")["nonzero_keys"]
    assert values.parse(axis, values.spell(value)) == value and specs.check_value(axis, value) is None


@pytest.mark.parametrize("value", [[1, 1], [2, 1], [-1], [True], "x", 3, [1.5]])
def test_what_is_no_list_of_positions_is_a_problem(value):
    problem = specs.check_value(specs.axes("mla_decode")["nonzero_keys"], value)
    assert "whole numbers, each once, ascending" in str(problem)
