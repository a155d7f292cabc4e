"""Where the new tokens of a step are written: a slot a token, -1 for one that is not written."""

from __future__ import annotations

from typing import Any

SPEC = {
    "choices": {
        "consecutive": {"doc": "slots 0, 1, 2, ...: blind to most indexing faults"},
        "scattered": {"doc": "distinct slots all over the pool"},
        "pages": {"doc": "whole pages in random order, the last one in part: a prefill"},
        "high_ids": {"doc": "the top of the pool, in random order"},
        "padded": {"doc": "scattered, and every third token is -1: the padding rows of a captured graph"},
        "all_padding": {"doc": "every token is -1: nothing may be written"},
    }
}


def pool_size(kind: str, tokens: int, block_size: int) -> int:
    """How many blocks the pool holds when the case does not say: what is needed, and spares.

    Args:
        kind: a choice of SPEC.
        tokens: tokens to write.
        block_size: tokens a page.
    """
    need = -(-tokens // block_size)
    return 2 * need + 3 if kind == "high_ids" else need + 3 + need // 8


def build(kind: str, tokens: int, num_blocks: int, block_size: int, generator: Any) -> Any:
    """The slots of a step.

    Args:
        kind: a choice of SPEC.
        tokens: tokens to write.
        num_blocks: pages in the pool.
        block_size: tokens a page.
        generator: an `inputs.random.Generator`.

    Returns:
        slot_mapping: [tokens] int64. Distinct slots, or -1.

    Raises:
        ValueError: the pool is too small.
    """
    import torch

    pool = num_blocks * block_size
    if tokens > pool:
        raise ValueError(f"a pool of {num_blocks} blocks of {block_size} has no slot for each of {tokens} tokens")
    if kind == "consecutive":
        return torch.arange(tokens)
    if kind == "all_padding":
        return torch.full((tokens,), -1)
    if kind == "high_ids":
        return generator.permutation("slots", tokens) + pool - tokens
    if kind == "pages":
        page = generator.permutation("slots", num_blocks)[:, None] * block_size
        return (page + torch.arange(block_size)).flatten()[:tokens].contiguous()
    slots = generator.permutation("slots", pool)[:tokens].clone()
    if kind == "padded":
        slots[2::3] = -1
    return slots
