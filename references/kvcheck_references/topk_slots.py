"""Reference of `topk_slots`: one gather in 64-bit integers.

Source: vllm-project/vllm vllm/v1/attention/backends/mla/sparse_utils.py. Differences: (1) 64-bit integers throughout; (2) no prefill
workspace; (3) any number of columns.
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
    """Slots of top-k positions.

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
    position = topk_positions.long()
    page = position // block_size
    known = (position >= 0) & (page < block_table.shape[1])
    entry = block_table[request_ids.long()].long().gather(1, torch.where(known, page, 0))
    return torch.where(known, entry * block_stride + position % block_size, -1)
