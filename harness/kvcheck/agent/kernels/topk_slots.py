"""Our own Triton kernel that turns top-k positions into slots: one program a row and a tile of columns."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from kvcheck.agent.kernels.target import current


@triton.jit
def _topk_slots(
    positions_ptr,
    table_ptr,
    requests_ptr,
    out_ptr,
    rows,
    topk,
    width,
    block_size,
    block_stride,
    positions_stride,
    table_stride,
    out_stride,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0) % rows
    column = tl.program_id(0) // rows * COLUMNS + tl.arange(0, COLUMNS)
    request = tl.load(requests_ptr + row).to(tl.int64)
    position = tl.load(positions_ptr + row.to(tl.int64) * positions_stride + column, mask=column < topk, other=-1)
    page = position // block_size
    known = (position >= 0) & (page < width)
    entry = tl.load(table_ptr + request * table_stride + page, mask=known, other=0)
    slot = tl.where(known, entry * block_stride + position % block_size, -1)
    tl.store(out_ptr + row.to(tl.int64) * out_stride + column, slot, mask=column < topk)


def topk_slots(
    topk_positions: Any, block_table: Any, request_ids: Any, *, block_size: int, block_stride: int, out: Any, alloc: Any = None
) -> dict[str, int]:
    """Slots of top-k positions.

    Args:
        topk_positions: [rows, topk] int32. Positions, -1 for none.
        block_table: [batch, width] int32. Page ids; rows may lie apart.
        request_ids: [rows] int32. Row of the block table.
        block_size: tokens a page.
        block_stride: slots between the starts of pages.
        out: [rows, topk] int32. Written whole.
        alloc: not used.

    Returns:
        config: tile sizes that were launched.
    """
    rows, topk = topk_positions.shape
    most = 1 << 16 if current(out.device).interpreted else 512
    config = {"COLUMNS": min(triton.next_power_of_2(topk), most)}
    _topk_slots[(rows * triton.cdiv(topk, config["COLUMNS"]),)](
        topk_positions,
        block_table,
        request_ids,
        out,
        rows,
        topk,
        block_table.shape[1],
        block_size,
        block_stride,
        topk_positions.stride(0),
        block_table.stride(0),
        out.stride(0),
        num_warps=4,
        **config,
    )
    return config
