"""Slots of top-k positions by indexing the block table, a row at a time."""

from __future__ import annotations

from typing import Any


def topk_slots(
    topk_positions: Any, block_table: Any, request_ids: Any, *, block_size: int, block_stride: int, out: Any, alloc: Any
) -> None:
    """Looks every position up in its request's row of the table."""
    import torch

    for row, request in enumerate(request_ids.tolist()):
        position = topk_positions[row].long()
        page = position // block_size
        known = (position >= 0) & (page < block_table.shape[1])
        slot = block_table[request][torch.where(known, page, 0)].long() * block_stride + position % block_size
        out[row] = torch.where(known, slot, -1).int()
