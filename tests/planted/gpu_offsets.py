"""The logits kernel with addresses as a GPU kernel gets them wrong: in 32 bits, or with wild reads answered by zeros.

PLANTED names the fault: `cache_in_32_bits`, `rows_in_32_bits` (the address wraps), `clamped_to_zero` (a resource of 2 GiB: bytes past it
read as 0, and nothing crashes).
"""

from __future__ import annotations

import os

import torch
import triton
import triton.language as tl


@triton.jit
def logits(
    q, cache, scale, weights, lens, table, out, heads, dim, block_size, page_words, table_stride, out_stride,
    CACHE_32: tl.constexpr, ROWS_32: tl.constexpr, CLAMPED: tl.constexpr, TOKENS: tl.constexpr, DIM: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    length = tl.load(lens + row)
    position = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    live = position < length
    lane = tl.arange(0, DIM)
    page = tl.load(table + row * table_stride + position // block_size, mask=live, other=0)
    if not CACHE_32:
        page = page.to(tl.int64)
    at = page * (page_words * 4) + position % block_size * dim
    readable = live & (at < (1 << 31)) if CLAMPED else live
    keys = tl.load(cache + at[:, None] + lane[None, :], mask=readable[:, None], other=0.0).to(tl.float32)
    factor = tl.load(scale + page * page_words + block_size * dim // 4 + position % block_size, mask=live, other=0.0)
    total = tl.zeros([TOKENS], dtype=tl.float32)
    for head in range(heads):
        query = tl.load(q + (row * heads + head) * dim + lane).to(tl.float32)
        score = tl.maximum(tl.sum(keys * query[None, :], axis=1) * factor, 0.0)
        total += score * tl.load(weights + row * heads + head)
    target = row * out_stride if ROWS_32 else row.to(tl.int64) * out_stride
    tl.store(out + target + position, total, mask=live)


def paged_mqa_logits(
    q, kv_cache, weights, context_lens, block_table, *, max_model_len, block_size, kv_dtype, out, alloc
):  # the op's own signature
    batch, next_n, heads, dim = q.shape
    assert next_n == 1 and context_lens.dim() == 1
    planted = os.environ.get("PLANTED", "")
    pages = kv_cache.view(len(kv_cache), -1)
    longest = int(context_lens.max())
    logits[(batch, triton.cdiv(longest, 64))](
        q, pages.view(q.dtype), pages.view(torch.float32), weights, context_lens, block_table, out, heads, dim, block_size,
        pages.shape[1] // 4, block_table.stride(0), out.stride(0),
        CACHE_32=planted == "cache_in_32_bits", ROWS_32=planted == "rows_in_32_bits", CLAMPED=planted == "clamped_to_zero",
        TOKENS=64, DIM=dim,
    )  # fmt: skip
