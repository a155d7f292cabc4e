"""The lists that an MLA kernel reads its pages through, made from a block table and lengths."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.inputs import tables
from kvcheck.agent.inputs.bundle import Inputs, context_lens

SPEC = {
    "op": "mla_metadata",
    "summary": "kv_indptr, kv_indices, last_page_len and split counts of MLA decode from a block table: token slots at page size 1",
    "axes": {
        "batch": {"type": "int", "min": 1, "max": 65536, "default": 1, "unit": "sequences", "doc": "sequences decoded together"},
        "context_len": {
            "type": "lengths",
            "min": 0,
            "max": 16777216,
            "default": 1024,
            "unit": "tokens",
            "doc": "valid tokens of a sequence; 0 is a padding row",
        },
        "block_size": {"type": "int", "min": 1, "max": 65536, "default": 64, "unit": "tokens", "doc": "tokens a block of the table"},
        "page_size": {
            "type": "int",
            "min": 1,
            "max": 65536,
            "default": 1,
            "unit": "tokens",
            "doc": "tokens a page of the kernel; divides block_size",
        },
        "num_splits": {"type": "int", "min": 1, "max": 64, "default": 8, "doc": "most parts that a request's tokens are split into"},
        "split_granularity": {
            "type": "int",
            "min": 1,
            "max": 65536,
            "default": 64,
            "unit": "tokens",
            "doc": "tokens that a part is worth opening for",
        },
        "block_table": {"type": "choice", "choices_from": "tables", "default": "shuffled", "doc": "layout of the block table"},
    },
    "constraints": [
        {"rule": "le", "axis": "page_size", "other": "block_size", "why": "a block of the table holds whole pages"},
    ],
    "relations": ["repeat", "page_permutation", "batch_neighbour", "padded_batch", "low_against_high_ids"],
    "boundaries": {"context_len": ["page_size", "block_size", "split_granularity"]},
}


def make_inputs(case: dict[str, Any], generator: Any) -> Inputs:
    """The arguments of `mla_metadata(block_table, context_lens, *, page_size, block_size, num_splits, split_granularity, ..., alloc)`.

    Args:
        case: resolved params.
        generator: an `inputs.random.Generator`.

    Returns:
        inputs: the call on the CPU. Tensors, one a line:
            block_table: [batch, width] int32. Block ids; columns past a request's own blocks are not read.
            context_lens: [batch] int32. Tokens of each request.
            kv_indptr: [batch + 1] int32. Pages of the requests before each; the last is the number of entries.
            kv_indices: [entries] int32. Page ids, block * (block_size / page_size) + page in the block: token slots at page size 1.
            last_page_len: [batch] int32. Tokens in each request's last page, (context_len - 1) mod page_size + 1.
            splits_indptr: [batch + 1] int32. Parts of the requests before each: min(num_splits, ceil(context_len / split_granularity)).

    Conventions:
        A request without tokens has no page; its last_page_len is 1 at page size 1 and not promised otherwise.
        kv_indices is exactly as long as it must be: a list that is longer runs into the guards.
        A request with tokens has one part at least, one without has none: no part is empty, and none has to be skipped by a reducer.

    Raises:
        ValueError: page_size does not divide block_size, or lengths are per row.

    Source: vllm-project/vllm#31282 and backends/mla/rocm_aiter_mla.py@0038cd3c; ROCm/aiter@e4048607a5 aiter/mla.py. Differences:
        1. aiter's num_kv_splits_indptr (get_meta_param) gives every request the same number, chosen by compute units, batch and mean
           length; its kernels skip the parts beyond a short request, and a request without tokens has as many as any other.
        2. vLLM's triton_mla has one number for the batch, a power of two by the longest request, and no list.
        3. Here the number is the request's own and depends on nothing but its length, so that it is comparable bit for bit.
    """
    import torch

    lens = context_lens(case["context_len"], case["batch"], 1)
    if lens.dim() == 2:
        raise ValueError("context_len of mla_metadata is one length a request")
    block_size, page_size = case["block_size"], case["page_size"]
    if block_size % page_size:
        raise ValueError(f"page_size {page_size} does not divide block_size {block_size}")
    blocks = [-(-n // block_size) for n in lens.tolist()]
    table = tables.build(case["block_table"], blocks, tables.pool_size(case["block_table"], blocks), generator)
    entries = sum(-(-n // page_size) for n in lens.tolist())
    known = (lens > 0) | (page_size == 1)
    return Inputs(
        tensors={"block_table": table, "context_lens": lens},
        scalars={
            "page_size": page_size,
            "block_size": block_size,
            "num_splits": case["num_splits"],
            "split_granularity": case["split_granularity"],
        },
        outputs={
            "kv_indptr": ((case["batch"] + 1,), torch.int32),
            "kv_indices": ((entries,), torch.int32),
            "last_page_len": ((case["batch"],), torch.int32),
            "splits_indptr": ((case["batch"] + 1,), torch.int32),
        },
        exact=True,
        inside={"last_page_len": known},
        axes={"kv_indptr": ("request",), "kv_indices": ("entry",), "last_page_len": ("request",), "splits_indptr": ("request",)},
    )


def checks(case: dict[str, Any]) -> tuple[str, ...]:
    """The checks a case goes through, in order (HOUSE order); names of `kvcheck.agent.judge`."""
    return ("shape", "input_mutated", "guards", "sentinel", "exact", "repeat")
