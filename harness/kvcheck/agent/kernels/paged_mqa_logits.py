"""Our own Triton kernel of the decode indexer's logits: written to be read, for Triton's interpreter, CUDA and ROCm.

One program scores one tile of tokens for one row: the keys of a tile are read once for all heads, heads are the M
dimension of the matrix product, and only the row's own positions are stored.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from kvcheck.agent.kernels.target import current

INTERPRETED_TILE = 2048
"""Tokens a program under the interpreter, whose cost is by program and operation, hardly by element."""


@triton.jit
def _paged_mqa_logits(
    q_ptr,
    cache_ptr,
    scale_ptr,
    weights_ptr,
    lens_ptr,
    table_ptr,
    out_ptr,
    next_n,
    num_heads,
    head_dim,
    block_size,
    page_words,
    table_stride,
    out_stride,
    rows,
    PER_ROW: tl.constexpr,
    FROM_BYTES: tl.constexpr,
    TWO_TO_BIAS: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_TILES: tl.constexpr,
    DIM: tl.constexpr,
    TOKENS: tl.constexpr,
):
    # One axis of programs, rows fastest: the other axes of a CUDA grid end at 65,535, and query tokens share their keys.
    row = tl.program_id(0) % rows
    request = row // next_n
    if PER_ROW:
        length = tl.load(lens_ptr + row)
    else:
        length = tl.load(lens_ptr + request) - next_n + 1 + row % next_n
    start = tl.program_id(0) // rows * TOKENS
    if start < length:
        position = start + tl.arange(0, TOKENS)
        live = position < length
        lane = tl.arange(0, DIM)
        # 64 bits before the first multiplication: a pool or a batch of rows may be larger than 2**31.
        page = tl.load(table_ptr + request.to(tl.int64) * table_stride + position // block_size, mask=live, other=0).to(tl.int64)
        offset = position % block_size
        # Counted in 4-byte words, so that the compiler sees that keys may be read four at a time.
        key_at = page * (page_words * 4) + offset * head_dim
        key_mask = (lane < head_dim)[:, None] & live[None, :]
        scale_at = page * page_words + block_size * head_dim // 4 + offset
        scale = tl.load(scale_ptr + scale_at, mask=live, other=0.0)
        if FROM_BYTES:
            keys = _from_bytes(tl.load(cache_ptr + key_at[None, :] + lane[:, None], mask=key_mask, other=0), TWO_TO_BIAS)
        else:
            keys = tl.load(cache_ptr + key_at[None, :] + lane[:, None], mask=key_mask, other=0.0)
        logits = tl.zeros([TOKENS], dtype=tl.float32)
        for tile in range(HEAD_TILES):
            head = tile * HEADS + tl.arange(0, HEADS)
            query_at = (row.to(tl.int64) * num_heads + head)[:, None] * head_dim + lane[None, :]
            query_mask = (head < num_heads)[:, None] & (lane < head_dim)[None, :]
            if FROM_BYTES:
                query = _from_bytes(tl.load(q_ptr + query_at, mask=query_mask, other=0), TWO_TO_BIAS)
            else:
                query = tl.load(q_ptr + query_at, mask=query_mask, other=0.0)
            weight = tl.load(weights_ptr + row.to(tl.int64) * num_heads + head, mask=head < num_heads, other=0.0)
            score = tl.maximum(tl.dot(query, keys, out_dtype=tl.float32) * scale[None, :], 0.0)
            logits += tl.sum(score * weight[:, None], axis=0)
        tl.store(out_ptr + row.to(tl.int64) * out_stride + position, logits, mask=live)


@triton.jit
def _from_bytes(code, TWO_TO_BIAS: tl.constexpr):
    """FP8 codes as fp16, exactly, where the compiler does not know the format: the bits of an e4m3 number, moved into an
    fp16's place, are that number times 2**(bias - 15), subnormals included. NaN codes come out as finite numbers."""
    bits = ((code.to(tl.int16) & 128) << 8) | ((code.to(tl.int16) & 127) << 7)
    return bits.to(tl.float16, bitcast=True) * TWO_TO_BIAS


def paged_mqa_logits(
    q: Any,
    kv_cache: Any,
    weights: Any,
    context_lens: Any,
    block_table: Any,
    *,
    max_model_len: int,
    block_size: int,
    kv_dtype: str,
    out: Any,
    from_bytes: bool = False,
) -> dict[str, int]:
    """Scores every cached token of every row.

    Args:
        q: [batch, next_n, num_heads, head_dim] float8. Queries.
        kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. Block-flat; pages may lie apart, a multiple of 4 bytes.
        weights: [batch * next_n, num_heads] float32. Head weights.
        context_lens: [batch] or [batch, next_n] int32. Lengths, or per-row lengths.
        block_table: [batch, width] int32. Page ids.
        max_model_len: columns of `out`.
        block_size: tokens a page.
        kv_dtype: e4m3fn or e4m3fnuz.
        out: [batch * next_n, max_model_len] float32. Written on [0, L) of every row, and nowhere else.
        from_bytes: decode FP8 with integer arithmetic, for formats that the device's compiler lacks.

    Returns:
        config: tile sizes that were launched.

    Conventions: under Triton's interpreter FP8 NaN codes are read as numbers (a trap of the interpreter).
    """
    batch, next_n, num_heads, head_dim = q.shape
    interpreted = current(q.device).interpreted
    longest = min(int(context_lens.max()), max_model_len) if interpreted else max_model_len
    config = tiles(num_heads, head_dim, longest, interpreted)
    dtype = torch.uint8 if from_bytes else {"e4m3fn": torch.float8_e4m3fn, "e4m3fnuz": torch.float8_e4m3fnuz}[kv_dtype]
    flat = kv_cache.view(kv_cache.shape[0], -1)
    _paged_mqa_logits[(batch * next_n * max(triton.cdiv(longest, config["TOKENS"]), 1),)](
        q.view(dtype),
        flat.view(dtype),
        flat.view(torch.float32),
        weights,
        context_lens,
        block_table,
        out,
        next_n,
        num_heads,
        head_dim,
        block_size,
        flat.stride(0) // 4,
        block_table.stride(0),
        out.stride(0),
        batch * next_n,
        PER_ROW=context_lens.dim() == 2,
        FROM_BYTES=from_bytes,
        TWO_TO_BIAS=256.0 if kv_dtype == "e4m3fn" else 128.0,
        num_warps=4,
        **config,
    )
    return config


def tiles(num_heads: int, head_dim: int, longest: int, interpreted: bool) -> dict[str, int]:
    """Tile sizes: whole rows of heads up to what one matrix product of a device holds; few and large under the interpreter.

    Args:
        num_heads: query heads.
        head_dim: QK width.
        longest: positions of the longest row.
        interpreted: under Triton's interpreter.

    Returns:
        config: HEADS and DIM, padded to powers of two; HEAD_TILES, passes over the heads; TOKENS a program.
    """
    dim = max(triton.next_power_of_2(head_dim), 32)  # the least that CUDA's FP8 matrix product takes
    heads = max(triton.next_power_of_2(num_heads), 16)
    tokens = INTERPRETED_TILE
    if not interpreted:
        heads = min(heads, 64 if dim <= 256 else 16)
        tokens = 128 if dim <= 128 else 64 if dim <= 256 else 32
    tokens = min(tokens, max(triton.next_power_of_2(longest), 16))
    return {"HEADS": heads, "HEAD_TILES": triton.cdiv(num_heads, heads), "DIM": dim, "TOKENS": tokens}
