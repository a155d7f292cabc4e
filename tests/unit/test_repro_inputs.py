"""The inputs that a script makes are those of the run, byte for byte, for every choice of every axis that they depend on."""

from __future__ import annotations

import importlib

import pytest
import torch

from kvcheck.agent import specs
from kvcheck.agent.inputs import pitch
from kvcheck.agent.inputs.random import Generator
from kvcheck.flow.selftest_cases import CASES
from kvcheck.repro import script
from kvcheck.repro.counted import Generator as Counted
from kvcheck.repro.wanted import Wanted

SMALL = {
    "block_table": {
        "context_len": [33, 9],
        "manager_block_size": 16,
        "kernel_block_size": 4,
        "storage_block_size": 8,
        "tokens_per_state": 2,
    },
    "index_k_cache_gather": {"context_len": [40, 33], "head_dim": 16, "block_size": 16},
    "index_k_cache_write": {"tokens": 21, "head_dim": 32, "block_size": 16},
    "mla_decode": {"batch": 2, "context_len": [40, 7], "num_heads": 2, "page_size": 4},
    "mla_metadata": {"batch": 3, "context_len": [9, 0, 17], "block_size": 8, "page_size": 4},
    "mqa_logits": {"rows": 9, "tokens": 70, "num_heads": 6, "head_dim": 16},
    "paged_mqa_logits": {"batch": 2, "context_len": [40, 9], "num_heads": 6, "head_dim": 16, "block_size": 4},
    "topk_per_row": {"batch": 2, "context_len": [40, 9], "topk": 8},
    "topk_slots": {"rows": 5, "topk": 9, "batch": 3, "context_len": [9, 0, 30], "block_size": 4},
}  # fmt: skip
TABLES = (
    "contiguous", "reversed", "shuffled", "fragmented", "interleaved", "shared_prefix", "high_ids", "wide_zero", "wide_minus_one",
    "wide_garbage",
)  # fmt: skip
MORE = {
    "index_k_cache_gather": [{"nonzero_keys": [3, 17]}, {"distinct_pages": [1]}, {"nonzero_keys": []}, {"context_len": [900, 700]}],
    "index_k_cache_write": [{"nonzero_keys": [3, 17]}, {"tokens": 200, "values": "midpoints", "kv_dtype": "e4m3fnuz", "divisor": 224}],
    "mla_decode": [
        {"nonzero_keys": [3], "distinct_pages": [0, 4]},
        {"kv_format": "fp8_656", "nonzero_keys": [3]},
        {"context_len": [400, 70]},
        {"context_len": 400},
        {"page_size": 1, "selection": "topk", "topk": 9},
        {"page_size": 1, "selection": "repeated", "topk": 300, "context_len": [400, 70]},
        {"kv_format": "e4m3fn", "kv_scale": 0.3, "poison": "none", "values": "heavy_tail"},
        {"kv_format": "e4m3fnuz", "kv_scale": 0.3, "poison": "inf"},
    ],
    "mqa_logits": [{"nonzero_keys": [3, 17]}, *({"rows": 200, "window": window} for window in ("ragged", "packed", "edges"))],
    "paged_mqa_logits": [
        {"nonzero_keys": [3], "distinct_pages": [0, 4]},
        {"context_len": [900, 700], "distinct_pages": [0, 4]},
        *({"context_len": lens, "block_table": kind} for lens in ([900, 0], [900, 700], 900) for kind in TABLES),
        {"kv_dtype": "e4m3fnuz", "values": "heavy_tail", "scale": "decades", "context_len": 300},
        {"num_blocks": 60},
    ],
    "block_table": [{"context_len": lens, "block_table": kind} for lens in ([3300, 900], 3300) for kind in ("sliding_window", "past_2_31")],
}  # fmt: skip
SWEPT = (
    "block_table", "cache", "kv_dtype", "kv_format", "layout", "mapping", "poison", "pool", "positions", "scale", "scale_format",
    "selection", "slots", "table_stride", "values", "window",
)  # fmt: skip


def cases(op):
    """The small case of an op with each choice of each axis in turn, larger ones, and those of the selftest."""
    yield {}
    for name, axis in specs.axes(op).items():
        for choice in axis.choices if name in SWEPT else ():
            if choice != "auto":
                yield {name: choice}
    yield from MORE.get(op, ())
    yield from (case for case in CASES[op] if case.get("context_len") != 270000)


def sections(op, params, seed):
    """What a script defines before it looks at the kernel."""
    asked = Wanted(op, "triton", params, seed, "mismatch", None, "", None, None, "cpu", "case", "versions", "command")
    return script.text(asked).partition("# What is right")[0]


@pytest.mark.parametrize("op", tuple(SMALL))
def test_inputs_are_those_of_the_run(op, monkeypatch):
    monkeypatch.setattr(script, "MOST_LINES", 1000)  # with titles, however long it gets
    module, made = importlib.import_module(f"kvcheck.agent.ops.{op}"), 0
    for number, case in enumerate(cases(op)):
        params = {name: axis.default for name, axis in specs.axes(op).items()} | SMALL[op] | case
        params |= {name: value for name, value in (("kv_dtype", "e4m3fn"), ("poison", "nan")) if params.get(name) == "auto"}
        if specs.check_params(op, params):
            continue
        try:
            inputs = module.make_inputs(params, Generator(number))
            text = sections(op, params, number)
        except ValueError:  # no such case
            continue
        if "in the place of the run's" in text:
            continue
        scope: dict = {}
        exec(compile(text, "inputs", "exec"), scope)
        for name, tensor in inputs.tensors.items():
            same(scope[name], tensor, f"{op} {case} {name}")
        for name, tensor in inputs.initial.items():
            before = {"kv_cache": "before", "k": "codes_before", "k_scale": "scales_before"}[name]
            whole = scope[before]
            if name == "kv_cache":
                whole = whole[:, : scope["PAGE"]].unflatten(1, tensor.shape[1:])
            same(whole, tensor, f"{op} {case} {name} before")
        made += 1
    assert made >= 8


def same(mine, tensor, what):
    """Two tensors with the same bytes, what lies between their rows included."""
    assert (mine.shape, mine.dtype, mine.stride()) == (tensor.shape, tensor.dtype, tensor.stride()), what
    assert torch.equal(pitch.octets(mine), pitch.octets(tensor)), what


def test_integers_without_torch_are_those_with_it():
    ours, theirs = Counted(7), Generator(7)
    assert ours.bits("a", 9) == theirs.bits("a", 9).tolist()
    assert ours.integers("b", 50, -3, 11) == theirs.integers("b", 50, -3, 11).tolist()
    assert ours.permutation("c", 50) == theirs.permutation("c", 50).tolist()
