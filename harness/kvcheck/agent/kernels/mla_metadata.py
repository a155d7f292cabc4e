"""Our own Triton kernel of MLA's lists of pages: one program a request and a tile of its pages, no synchronisation with the host."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

LANES = 1024


@triton.jit
def _mla_metadata(
    table_ptr, lens_ptr, indptr_ptr, indices_ptr, last_ptr, splits_ptr,
    table_stride, page_size, block_size, num_splits, split_granularity, tiles, LANES: tl.constexpr,
):  # fmt: skip
    request = tl.program_id(0) // tiles
    tile = tl.program_id(0) % tiles
    lane = tl.arange(0, LANES)
    before = tl.zeros([LANES], dtype=tl.int32)
    parts_before = tl.zeros([LANES], dtype=tl.int32)
    for start in range(0, request, LANES):
        length = tl.load(lens_ptr + start + lane, mask=start + lane < request, other=0)
        before += (length + page_size - 1) // page_size
        parts_before += tl.minimum((length + split_granularity - 1) // split_granularity, num_splits)
    first = tl.sum(before, axis=0)
    length = tl.load(lens_ptr + request)
    pages = (length + page_size - 1) // page_size
    page = tile * LANES + lane
    token = page * page_size
    block = tl.load(table_ptr + request.to(tl.int64) * table_stride + token // block_size, mask=page < pages, other=0)
    tl.store(indices_ptr + first + page, block * (block_size // page_size) + token % block_size // page_size, mask=page < pages)
    if tile == 0:
        rest = length % page_size
        tl.store(last_ptr + request, tl.where(rest == 0, page_size, rest))
        tl.store(indptr_ptr + request + 1, first + pages)
        parts = tl.minimum((length + split_granularity - 1) // split_granularity, num_splits)
        tl.store(splits_ptr + request + 1, tl.sum(parts_before, axis=0) + parts)
        if request == 0:
            tl.store(indptr_ptr, 0)
            tl.store(splits_ptr, 0)


def mla_metadata(
    block_table: Any,
    context_lens: Any,
    *,
    page_size: int,
    block_size: int,
    num_splits: int,
    split_granularity: int,
    kv_indptr: Any,
    kv_indices: Any,
    last_page_len: Any,
    splits_indptr: Any,
    alloc: Any,
) -> dict[str, int]:
    """Writes the lists.

    Args:
        block_table: [batch, width] int32. Block ids.
        context_lens: [batch] int32. Tokens.
        page_size: tokens a page; divides block_size.
        block_size: tokens a block of the table.
        num_splits: most parts of a request.
        split_granularity: tokens that a part is opened for.
        kv_indptr: [batch + 1] int32. Written.
        kv_indices: [entries] int32. Written up to the last request's pages.
        last_page_len: [batch] int32. Written; page_size where a request has no token.
        splits_indptr: [batch + 1] int32. Written.
        alloc: not used.

    Returns:
        config: pages a program.
    """
    batch, width = block_table.shape
    tiles = triton.cdiv(width * (block_size // page_size), LANES)
    _mla_metadata[(batch * tiles,)](
        block_table,
        context_lens,
        kv_indptr,
        kv_indices,
        last_page_len,
        splits_indptr,
        block_table.stride(0),
        page_size,
        block_size,
        num_splits,
        split_granularity,
        tiles,
        LANES=LANES,
    )
    return {"LANES": LANES}
