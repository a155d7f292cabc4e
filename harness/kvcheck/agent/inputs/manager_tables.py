"""Block tables in the ids of the allocator's manager blocks, and the tokens that are asked for their slots.

Block 0 is the null block: it is never a token's own, and every entry that was not allocated holds it unless the table is padded otherwise.
"""

from __future__ import annotations

from typing import Any

from kvcheck.agent.inputs import tables

SPEC = {"summary": "tables of manager blocks: ids from 1 on, null block 0, every live token of every request, padding tokens at the end"}

PADDING_TOKENS = 3
"""Tokens at the end of a batch that belong to no request, as in a batch padded for a captured graph."""


def build(case: dict[str, Any], lengths: list[int], generator: Any) -> tuple[Any, Any, Any]:
    """The allocator's table, and the tokens.

    Args:
        case: resolved params of `block_table`.
        lengths: tokens of each request.
        generator: an `inputs.random.Generator`.

    Returns:
        block_table: [batch, width] int32. Manager block ids.
        request_ids: [tokens] int32. -1 for a padding token.
        positions: [tokens] int32. Position in the request; 0 for a padding token.

    Raises:
        ValueError: ids past 2^31 tokens do not fit the table's 32 bits in kernel blocks.
    """
    import torch

    kind, size = case["block_table"], case["manager_block_size"]
    pages = [-(-length // size) for length in lengths]
    if kind == "five_seven_two":
        table = _given([5, 7, 2], pages)
    else:
        plain = "shuffled" if kind in ("past_2_31", "sliding_window") else kind
        table = tables.build(plain, pages, tables.pool_size(plain, pages), generator)
        for row, count in zip(table, pages, strict=True):
            row[:count] += _first_id(case, sum(pages)) if kind == "past_2_31" else 1
    requests, positions = [], []
    for request, (length, count) in enumerate(zip(lengths, pages, strict=True)):
        freed = count // 2 if kind == "sliding_window" else 0
        table[request, :freed] = 0
        positions.append(torch.arange(freed * size, length, dtype=torch.int32))
        requests.append(torch.full((len(positions[-1]),), request, dtype=torch.int32))
    requests.append(torch.full((PADDING_TOKENS,), -1, dtype=torch.int32))
    positions.append(torch.zeros(PADDING_TOKENS, dtype=torch.int32))
    return table, torch.cat(requests), torch.cat(positions)


def _given(first: list[int], pages: list[int]) -> Any:
    """The ids that are given, then the lowest ones that are left."""
    import torch

    order = first + [block for block in range(1, sum(pages) + len(first) + 1) if block not in first]
    table = torch.zeros(len(pages), max([1, *pages]), dtype=torch.int32)
    taken = 0
    for row, count in zip(table, pages, strict=True):
        row[:count] = torch.tensor(order[taken : taken + count], dtype=torch.int32)
        taken += count
    return table


def _first_id(case: dict[str, Any], need: int) -> int:
    """The first manager block whose tokens lie past 2^31."""
    size = case["manager_block_size"]
    first = 2**31 // size + 1
    highest = (first + 2 * need + 8) * size
    if highest // min(case["kernel_block_size"], case["storage_block_size"], size) >= 2**31:
        raise ValueError("block_table past_2_31: ids of blocks of one token do not fit the table's 32 bits; use larger blocks")
    return first
