"""Block-table algebra: from the allocator's blocks to the cache slot of every token."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.inputs import manager_tables
from kvcheck.agent.inputs.bundle import Inputs, context_lens

SPEC = {
    "op": "block_table",
    "summary": "cache slot of every token: a table of manager blocks, seen in kernel blocks, over a cache paged in storage blocks",
    "axes": {
        "batch": {"type": "int", "min": 1, "max": 65536, "default": 2, "unit": "sequences", "doc": "requests"},
        "context_len": {
            "type": "lengths",
            "min": 0,
            "max": 16777216,
            "default": 3456,
            "unit": "tokens",
            "doc": "tokens of a request; every one of them is asked for its slot",
        },
        "manager_block_size": {
            "type": "int",
            "min": 1,
            "max": 1048576,
            "default": 1152,
            "unit": "tokens",
            "doc": "tokens of a block of the allocator, whose ids the table holds",
        },
        "kernel_block_size": {
            "type": "int",
            "min": 1,
            "max": 1048576,
            "default": 1152,
            "unit": "tokens",
            "doc": "tokens of a block of the table that kernels see; divides the manager block",
        },
        "storage_block_size": {
            "type": "int",
            "min": 1,
            "max": 1048576,
            "default": 128,
            "unit": "tokens",
            "doc": "tokens of a page of the cache",
        },
        "tokens_per_state": {
            "type": "int",
            "min": 1,
            "max": 65536,
            "default": 4,
            "unit": "tokens",
            "doc": "tokens that share one cached state (compress ratio, kpool); a page holds storage_block_size / tokens_per_state states",
        },
        "mapping": {
            "type": "choice",
            "choices": {
                "read": {"doc": "the slot that holds a token's state, for every token"},
                "write": {"doc": "the slot that a token writes: -1 unless the token completes its state's group"},
            },
            "default": "read",
            "doc": "whose slots are asked for",
        },
        "block_table": {"type": "choice", "choices_from": "tables", "default": "shuffled", "doc": "layout of the block table"},
    },
    "constraints": [],
    "relations": ["repeat", "page_permutation", "block_size", "batch_neighbour", "padded_batch", "low_against_high_ids"],
    "boundaries": {"context_len": ["manager_block_size", "kernel_block_size", "storage_block_size", "tokens_per_state"]},
}


def make_inputs(case: dict[str, Any], generator: Any) -> Inputs:
    """The arguments of an op's function, which are called
    block_table(block_table, request_ids, positions, *, manager_block_size, kernel_block_size, storage_block_size, tokens_per_state, ...).

    Args:
        case: resolved params.
        generator: an `inputs.random.Generator`.

    Returns:
        inputs: the call on the CPU. Tensors, one a line:
            block_table: [batch, width] int32. Manager block ids; entries past a request's own are padding, block 0 is the null block.
            request_ids: [tokens] int32. Whose token; -1 for a padding token.
            positions: [tokens] int32. Position in the request.
            out: [tokens] int64. Slots, -1 for a padding token.

    Conventions:
        A manager block m of f kernel blocks is the kernel blocks m*f ... m*f + f - 1. A kernel block of g storage blocks is the
        storage blocks k*g ... k*g + g - 1 (expand); g kernel blocks that make one storage block are k // g (collapse); equal sizes
        pass through. slot = storage block * (storage_block_size / tokens_per_state) + state within it.
        Refused, with ValueError: a kernel block that does not divide the manager block, kernel and storage blocks of which neither
        divides the other, a manager block that is not whole storage blocks, a storage block that is not whole states.

    Raises:
        ValueError: ids that do not fit 32 bits.

    Source: vllm-project/vllm vllm/v1/worker/block_table.py@a4cd9d0d, vllm/v1/attention/backends/mla/indexer.py@07492607.
    """
    import torch

    lens = context_lens(case["context_len"], case["batch"], 1).view(case["batch"], -1).amax(1).tolist()
    table, request_ids, positions = manager_tables.build(case, lens, generator)
    return Inputs(
        tensors={"block_table": table, "request_ids": request_ids, "positions": positions},
        scalars={
            name: case[name] for name in ("manager_block_size", "kernel_block_size", "storage_block_size", "tokens_per_state", "mapping")
        },
        outputs={"slots": ((len(positions),), torch.int64)},
        exact=True,
        axes={"slots": ("token",)},
        refusal=refusal(case),
    )


def refusal(case: dict[str, Any]) -> str | None:
    """Why a combination of block sizes must be refused; None when it must be answered."""
    manager, kernel, storage = case["manager_block_size"], case["kernel_block_size"], case["storage_block_size"]
    if manager % kernel:
        return f"a manager block of {manager} tokens is not whole kernel blocks of {kernel}"
    if kernel % storage and storage % kernel:
        return f"neither of kernel block {kernel} and storage block {storage} divides the other"
    if manager % storage:
        return f"a manager block of {manager} tokens is not whole storage blocks of {storage}"
    if storage % case["tokens_per_state"]:
        return f"a storage block of {storage} tokens is not whole states of {case['tokens_per_state']}"
    return None


def checks(case: dict[str, Any]) -> tuple[str, ...]:
    """The checks a case goes through, in order (HOUSE order); names of `kvcheck.agent.judge`."""
    return ("premise_slots", "shape", "input_mutated", "guards", "sentinel", "slots", "injective", "repeat")
