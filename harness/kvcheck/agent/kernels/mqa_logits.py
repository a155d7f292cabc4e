"""Our own Triton kernel of the prefill indexer's logits: the decode kernel's tile, with contiguous keys and a window a row.

One program scores one tile of tokens for one row (for several under the interpreter, whose cost is by program), and only where a
window reaches into the tile.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from kvcheck.agent.kernels.paged_mqa_logits import _from_bytes, tiles
from kvcheck.agent.kernels.target import current, native_fp8

WGMMA_HEADS = 64
"""From this many rows of a tile on, tl.dot on Hopper takes the wgmma path with its 13-bit accumulators (measured on an H200)."""

INTERPRETED_SCORES = 1 << 20
"""Scores a program under the interpreter: the most that Triton lets a tensor hold."""


@triton.jit
def _mqa_logits(
    q_ptr,
    k_ptr,
    scale_ptr,
    weights_ptr,
    ks_ptr,
    ke_ptr,
    out_ptr,
    num_heads,
    head_dim,
    tokens,
    out_stride,
    rows,
    FROM_BYTES: tl.constexpr,
    TWO_TO_BIAS: tl.constexpr,
    ROWS: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_TILES: tl.constexpr,
    DIM: tl.constexpr,
    TOKENS: tl.constexpr,
):
    # One axis of programs, rows fastest: neighbours share their keys, and the other axes of a CUDA grid end at 65,535.
    groups = (rows + ROWS - 1) // ROWS
    row = tl.program_id(0) % groups * ROWS + tl.arange(0, ROWS)
    start = tl.program_id(0) // groups * TOKENS
    first = tl.maximum(tl.load(ks_ptr + row, mask=row < rows, other=0), 0)
    end = tl.minimum(tl.load(ke_ptr + row, mask=row < rows, other=0), tokens)
    if tl.max(((first < end) & (start < end) & (start + TOKENS > first)).to(tl.int32), axis=0) > 0:
        column = start + tl.arange(0, TOKENS)
        live = (column[None, :] >= first[:, None]) & (column[None, :] < end[:, None])
        seen = tl.max(live.to(tl.int32), axis=0) > 0
        lane = tl.arange(0, DIM)
        # 64 bits before the first multiplication: keys, queries and logits may be larger than 2**31.
        key_at = column.to(tl.int64) * head_dim
        key_mask = (lane < head_dim)[:, None] & seen[None, :]
        scale = tl.load(scale_ptr + column, mask=seen, other=0.0)
        if FROM_BYTES:
            keys = _from_bytes(tl.load(k_ptr + key_at[None, :] + lane[:, None], mask=key_mask, other=0), TWO_TO_BIAS)
        else:
            keys = tl.load(k_ptr + key_at[None, :] + lane[:, None], mask=key_mask, other=0.0)
        logits = tl.zeros([ROWS, TOKENS], dtype=tl.float32)
        line = tl.arange(0, ROWS * HEADS)
        query_row = tl.program_id(0) % groups * ROWS + line // HEADS
        for tile in range(HEAD_TILES):
            head = tile * HEADS + line % HEADS
            exists = (head < num_heads) & (query_row < rows)
            query_at = (query_row.to(tl.int64) * num_heads + head)[:, None] * head_dim + lane[None, :]
            query_mask = exists[:, None] & (lane < head_dim)[None, :]
            if FROM_BYTES:
                query = _from_bytes(tl.load(q_ptr + query_at, mask=query_mask, other=0), TWO_TO_BIAS)
            else:
                query = tl.load(q_ptr + query_at, mask=query_mask, other=0.0)
            weight = tl.load(weights_ptr + query_row.to(tl.int64) * num_heads + head, mask=exists, other=0.0)
            score = tl.maximum(tl.dot(query, keys, out_dtype=tl.float32) * scale[None, :], 0.0) * weight[:, None]
            logits += tl.sum(tl.reshape(score, (ROWS, HEADS, TOKENS)), axis=1)
        tl.store(out_ptr + row.to(tl.int64)[:, None] * out_stride + column[None, :], logits, mask=live)


def mqa_logits(
    q: Any, k: Any, k_scale: Any, weights: Any, ks: Any, ke: Any, *, kv_dtype: str, out: Any, alloc: Any = None
) -> dict[str, int]:
    """Scores every token in the window of every row.

    Args:
        q: [rows, num_heads, head_dim] float8. Queries.
        k: [tokens, head_dim] float8. Keys.
        k_scale: [tokens] float32. Key scales.
        weights: [rows, num_heads] float32. Head weights.
        ks: [rows] int32. First column of each row.
        ke: [rows] int32. One past its last column.
        kv_dtype: e4m3fn or e4m3fnuz.
        out: [rows, tokens] float32. Written inside the windows, and nowhere else.
        alloc: not used.

    Returns:
        config: tile sizes that were launched.

    Conventions: under Triton's interpreter FP8 NaN codes are read as numbers (a trap of the interpreter).
    """
    rows, num_heads, head_dim = q.shape
    tokens = k.shape[0]
    interpreted = current(q.device).interpreted
    config = tiles(num_heads, head_dim, tokens, interpreted)
    scores = config["HEADS"] * max(config["TOKENS"], config["DIM"])
    config["ROWS"] = max(min(INTERPRETED_SCORES // scores, 16), 1) if interpreted else 1
    from_bytes = kv_dtype not in native_fp8(q.device)
    dtype = torch.uint8 if from_bytes else {"e4m3fn": torch.float8_e4m3fn, "e4m3fnuz": torch.float8_e4m3fnuz}[kv_dtype]
    _mqa_logits[(triton.cdiv(rows, config["ROWS"]) * triton.cdiv(tokens, config["TOKENS"]),)](
        q.view(dtype),
        k.view(dtype),
        k_scale,
        weights,
        ks,
        ke,
        out,
        num_heads,
        head_dim,
        tokens,
        out.stride(0),
        rows,
        FROM_BYTES=from_bytes,
        TWO_TO_BIAS=256.0 if kv_dtype == "e4m3fn" else 128.0,
        num_warps=4,
        **config,
    )
    return config


def precision(params: dict[str, Any], device: dict[str, Any]) -> str:
    """fp32 sums in any order; not so on Hopper from 33 heads on, and on Ada."""
    tall = params["num_heads"] > WGMMA_HEADS // 2 and params["head_dim"] <= 256
    narrow = device.get("arch") == "sm_89" or (device.get("arch") == "sm_90" and tall)
    return "hopper_wgmma_fp8" if narrow and params["kv_dtype"] == "e4m3fn" else "fp32_any"
