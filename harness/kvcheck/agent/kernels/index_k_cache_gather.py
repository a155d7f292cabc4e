"""Our own Triton kernel of the index cache's gather: one program copies a few tokens of one request."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from kvcheck.agent.kernels.target import current


@triton.jit
def _index_k_cache_gather(
    byte_ptr,
    word_ptr,
    table_ptr,
    starts_ptr,
    k_ptr,
    k_scale_ptr,
    batch,
    head_dim,
    block_size,
    page_words,
    table_stride,
    SHUFFLED: tl.constexpr,
    TOKENS: tl.constexpr,
    DIM: tl.constexpr,
):
    request = tl.program_id(0) % batch
    first = tl.load(starts_ptr + request)
    length = tl.load(starts_ptr + request + 1) - first
    start = tl.program_id(0) // batch * TOKENS
    if start < length:
        position = start + tl.arange(0, TOKENS)
        live = position < length
        page = tl.load(table_ptr + request.to(tl.int64) * table_stride + position // block_size, mask=live, other=0).to(tl.int64)
        offset = position % block_size
        lane = tl.arange(0, DIM)
        mask = live[:, None] & (lane < head_dim)[None, :]
        at = offset[:, None] * head_dim + lane[None, :]
        if SHUFFLED:
            at = (offset // 16)[:, None] * (16 * head_dim) + (lane // 16 * 256 + lane % 16)[None, :] + (offset % 16)[:, None] * 16
        code = tl.load(byte_ptr + page[:, None] * (page_words * 4) + at, mask=mask, other=0)
        row = (first + position).to(tl.int64)
        tl.store(k_ptr + row[:, None] * head_dim + lane[None, :], code, mask=mask)
        # Scales travel as words: a copy keeps every bit.
        scale = tl.load(word_ptr + page * page_words + block_size * head_dim // 4 + offset, mask=live, other=0)
        tl.store(k_scale_ptr + row, scale, mask=live)


def index_k_cache_gather(
    kv_cache: Any,
    block_table: Any,
    cu_seq_lens: Any,
    *,
    block_size: int,
    kv_dtype: str,
    layout: str,
    k: Any,
    k_scale: Any,
    alloc: Any = None,
) -> dict[str, int]:
    """Copies codes and scales of whole requests.

    Args:
        kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. The cache; pages may lie apart, a multiple of 4 bytes.
        block_table: [batch, width] int32. Page ids; rows may lie apart.
        cu_seq_lens: [batch + 1] int32. First row of each request, and the end.
        block_size: tokens a page.
        kv_dtype: not used: everything is a copy.
        layout: block_flat or shuffled.
        k: [tokens, head_dim] uint8. Written up to the end.
        k_scale: [tokens] float32. Written up to the end.
        alloc: not used.

    Returns:
        config: tile sizes that were launched.
    """
    batch, head_dim = block_table.shape[0], k.shape[1]
    flat = kv_cache.view(kv_cache.shape[0], -1)
    interpreted = current(k.device).interpreted
    longest = int(cu_seq_lens.diff().max()) if interpreted else k.shape[0]
    config = {"TOKENS": min(max(triton.next_power_of_2(longest), 1), 1024 if interpreted else 32), "DIM": triton.next_power_of_2(head_dim)}
    _index_k_cache_gather[(batch * max(triton.cdiv(longest, config["TOKENS"]), 1),)](
        flat,
        flat.view(torch.int32),
        block_table,
        cu_seq_lens,
        k,
        k_scale.view(torch.int32),
        batch,
        head_dim,
        block_size,
        flat.stride(0) // 4,
        block_table.stride(0),
        SHUFFLED=layout == "shuffled",
        num_warps=4,
        **config,
    )
    return config
