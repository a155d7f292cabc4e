"""Top-k positions of the indexer as physical slots, through the block table: what the sparse attention kernel is given."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.inputs import positions, table_stride, tables
from kvcheck.agent.inputs.bundle import Inputs, context_lens

SPEC = {
    "op": "topk_slots",
    "summary": "slot of each top-k position through its request's block table; -1 stays -1, columns stay where they are",
    "axes": {
        "rows": {"type": "int", "min": 1, "max": 1048576, "default": 16, "unit": "tokens", "doc": "query tokens"},
        "topk": {"type": "int", "min": 1, "max": 1048576, "default": 2048, "doc": "k: columns"},
        "batch": {"type": "int", "min": 1, "max": 65536, "default": 3, "unit": "sequences", "doc": "requests, rows of the block table"},
        "context_len": {
            "type": "lengths",
            "min": 0,
            "max": 16777216,
            "default": 4096,
            "unit": "tokens",
            "doc": "tokens of a request",
        },
        "block_size": {"type": "int", "min": 1, "max": 65536, "default": 64, "unit": "tokens", "doc": "tokens a page"},
        "block_stride": {
            "type": "int",
            "min": 1,
            "max": 131072,
            "optional": True,
            "default": None,
            "unit": "slots",
            "doc": "slots between the starts of pages; null: block_size",
        },
        "pool": {
            "type": "choice",
            "choices": {
                "needed": {"doc": "what the requests need, and spares"},
                "last": {"doc": "as many as 32-bit slots can name, and the requests own the last of them"},
            },
            "default": "needed",
            "doc": "pages in the pool",
        },
        "block_table": {"type": "choice", "choices_from": "tables", "default": "shuffled", "doc": "layout of the block table"},
        "positions": {"type": "choice", "choices_from": "positions", "default": "holes", "doc": "what the columns hold"},
        "table_stride": {"type": "choice", "choices_from": "table_stride", "default": "width", "doc": "row stride of the block table"},
    },
    "constraints": [{"rule": "le", "axis": "block_size", "other": "block_stride", "why": "pages do not overlap"}],
    "relations": ["repeat", "page_permutation", "batch_neighbour", "padded_batch", "strided_against_contiguous", "low_against_high_ids"],
    "boundaries": {"context_len": ["block_size", 64], "topk": [64, 128]},
}


def make_inputs(case: dict[str, Any], generator: Any) -> Inputs:
    """The arguments of `topk_slots(topk_positions, block_table, request_ids, *, block_size, block_stride, out, alloc)`.

    Args:
        case: resolved params.
        generator: an `inputs.random.Generator`.

    Returns:
        inputs: the call on the CPU. Tensors, one a line:
            topk_positions: [rows, topk] int32. Positions in the sequence, -1 where there is none.
            block_table: [batch, width] int32. Page ids.
            request_ids: [rows] int32. Row of the block table.
            out: [rows, topk] int32. Slots.

    Conventions:
        slot = block_table[request, position // block_size] * block_stride + position % block_size. A negative position, and one whose page
        is at or past the table's width, give -1. Columns keep their place. A position past the context but inside the table is mapped
        through what the table holds there: nobody checks it.

    Raises:
        ValueError: the pool is too small, or a slot that is asked for has no 32-bit number.

    Source: vllm-project/vllm vllm/v1/attention/backends/mla/sparse_utils.py triton_convert_req_index_to_global_index; ROCm/aiter@e4048607a5
    op_tests/test_mla_sparse.py.
    """
    import torch

    size, stride = case["block_size"], case["block_stride"] or case["block_size"]
    lengths = context_lens(case["context_len"], case["batch"], 1).view(-1).tolist()
    pages = [-(-length // size) for length in lengths]
    pool = tables.pool_size(case["block_table"], pages)
    table = tables.build(case["block_table"], pages, pool, generator)
    if case["pool"] == "last":
        owned = torch.arange(table.shape[1]) < torch.tensor(pages)[:, None]
        table = torch.where(owned, table + ((2**31 - size) // stride - pool), table)
    chosen, owner = positions.build(case["positions"], case["rows"], case["topk"], lengths, table.shape[1] * size, generator)
    page = chosen.long() // size
    known = (page >= 0) & (page < table.shape[1])
    entry = table[owner.long()].long().gather(1, torch.where(known, page, 0))
    if int((entry * known * stride).abs().max()) + size > 2**31:
        raise ValueError("a slot that is asked for has no 32-bit number: what pads this table is too large for this stride")
    return Inputs(
        tensors={"topk_positions": chosen, "block_table": table_stride.lay(table, case["table_stride"]), "request_ids": owner},
        scalars={"block_size": size, "block_stride": stride},
        outputs={"slots": ((case["rows"], case["topk"]), torch.int32)},
        axes={"slots": ("row", "column")},
        exact=True,
    )


def checks(case: dict[str, Any]) -> tuple[str, ...]:
    """The checks a case goes through, in order (HOUSE order); names of `kvcheck.agent.judge`."""
    return ("shape", "input_mutated", "guards", "sentinel", "exact", "repeat")
