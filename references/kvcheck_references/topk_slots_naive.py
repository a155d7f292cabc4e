"""A second reference of `topk_slots`, written independently: lists, one position at a time.

Source: SEMANTICS 5 in words; no code is shared with `topk_slots`.
"""

from __future__ import annotations

import torch


def topk_slots(
    topk_positions: torch.Tensor,
    block_table: torch.Tensor,
    request_ids: torch.Tensor,
    *,
    block_size: int,
    block_stride: int,
    out: object,
    alloc: object,
) -> torch.Tensor:
    """Slots of top-k positions, one at a time.

    Args:
        topk_positions: [rows, topk] int32. Positions, -1 for none.  # [rows, topk]
        block_table: [batch, width] int32. Page ids.  # [batch, width]
        request_ids: [rows] int32. Row of the block table.  # [rows]
        block_size: tokens a page.
        block_stride: slots between the starts of pages.
        out, alloc: not used.

    Returns:
        slots: [rows, topk] int64. Slots, -1 for none.  # [rows, topk]
    """
    table = block_table.tolist()
    rows = []
    for line, request in zip(topk_positions.tolist(), request_ids.tolist(), strict=True):
        slots = []
        for position in line:
            page, offset = divmod(position, block_size)
            slots.append(-1 if position < 0 or page >= len(table[request]) else table[request][page] * block_stride + offset)
        rows.append(slots)
    return torch.tensor(rows, dtype=torch.int64)
