"""Our own Triton kernel of MLA decode: split over the context, then merged; for Triton's interpreter, CUDA and ROCm.

One program attends to one part of the context with one tile of heads: a tile of latents is read once, as K and as V. Partial sums
are kept in fp32, unnormalised, with their largest score and their sum of exponentials; a second kernel merges the parts. A token
that a row does not see is never read, so that nothing that lies there can matter.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from kvcheck.agent.kernels.latents import FORMATS, FP16, TOKEN_656, as_bf16, latent
from kvcheck.agent.kernels.target import current

INTERPRETED_TILE = 256
"""Tokens a tile under the interpreter, whose cost is by operation, hardly by element."""

LOG2_E = 1.4426950408889634


@triton.jit
def _part(
    q_ptr,
    byte_ptr,
    half_ptr,
    word_ptr,
    indptr_ptr,
    indices_ptr,
    last_ptr,
    sum_ptr,
    top_ptr,
    total_ptr,
    next_n,
    num_heads,
    page_size,
    scale_log2,
    FORMAT: tl.constexpr,
    INTERPRETED: tl.constexpr,
    ROW: tl.constexpr,
    DIM: tl.constexpr,
    DIM_V: tl.constexpr,
    LATENT: tl.constexpr,
    ROPE: tl.constexpr,
    HEADS: tl.constexpr,
    HEAD_TILES: tl.constexpr,
    TOKENS: tl.constexpr,
    SPLITS: tl.constexpr,
):
    # One axis of programs: the other axes of a CUDA grid end at 65,535. Heads are fastest, since they share their latents.
    tile = tl.program_id(0) % HEAD_TILES
    split = tl.program_id(0) // HEAD_TILES % SPLITS
    row = tl.program_id(0) // HEAD_TILES // SPLITS
    request = row // next_n
    first = tl.load(indptr_ptr + request)
    pages = tl.load(indptr_ptr + request + 1) - first
    length = (pages - 1) * page_size + tl.load(last_ptr + request) - next_n + 1 + row % next_n
    length = tl.where(pages > 0, length, 0)
    chunk = tl.maximum((length + SPLITS - 1) // SPLITS, 1)
    begin = split * chunk
    end = tl.minimum(begin + chunk, length)

    head = tile * HEADS + tl.arange(0, HEADS)
    lane = tl.arange(0, LATENT)
    turn = tl.arange(0, ROPE)
    query_at = (row.to(tl.int64) * num_heads + head)[:, None] * DIM
    query = tl.load(q_ptr + query_at + lane[None, :], mask=(head < num_heads)[:, None] & (lane < DIM_V)[None, :], other=0.0)
    if DIM > DIM_V:
        turned_mask = (head < num_heads)[:, None] & (turn < DIM - DIM_V)[None, :]
        turned = tl.load(q_ptr + query_at + DIM_V + turn[None, :], mask=turned_mask, other=0.0)
        if INTERPRETED:
            turned = turned.to(tl.float32)
    if INTERPRETED:
        query = query.to(tl.float32)

    top = tl.full([HEADS], float("-inf"), dtype=tl.float32)
    total = tl.zeros([HEADS], dtype=tl.float32)
    sums = tl.zeros([HEADS, LATENT], dtype=tl.float32)
    for start in range(begin, end, TOKENS):
        position = start + tl.arange(0, TOKENS)
        live = position < end
        page = tl.load(indices_ptr + first + position // page_size, mask=live, other=0)
        # 64 bits before the first multiplication: a pool may be larger than 2**31 bytes.
        slot = page.to(tl.int64) * page_size + position % page_size
        value_mask = live[:, None] & (lane < DIM_V)[None, :]
        value = latent(byte_ptr, half_ptr, word_ptr, slot[:, None], lane[None, :], value_mask, FORMAT, INTERPRETED, False, ROW)
        score = tl.dot(query, tl.trans(value), input_precision="ieee")
        if DIM > DIM_V:
            key_mask = live[:, None] & (turn < DIM - DIM_V)[None, :]
            offset: tl.constexpr = 0 if FORMAT == TOKEN_656 else DIM_V
            key = latent(byte_ptr, half_ptr, word_ptr, slot[:, None], offset + turn[None, :], key_mask, FORMAT, INTERPRETED, True, ROW)
            score += tl.dot(turned, tl.trans(key), input_precision="ieee")
        score = tl.where(live[None, :], score * scale_log2, float("-inf"))
        higher = tl.maximum(top, tl.max(score, axis=1))
        shrink = tl.exp2(top - higher)
        weight = tl.exp2(score - higher[:, None])
        total = total * shrink + tl.sum(weight, axis=1)
        if FORMAT == FP16:
            weight = weight.to(tl.float16)
            if INTERPRETED:
                weight = weight.to(tl.float32)
        else:
            weight = as_bf16(weight, INTERPRETED)
        sums = sums * shrink[:, None] + tl.dot(weight, value, input_precision="ieee")
        top = higher
    part = (row.to(tl.int64) * num_heads + head) * SPLITS + split
    tl.store(top_ptr + part, top, mask=head < num_heads)
    tl.store(total_ptr + part, total, mask=head < num_heads)
    tl.store(sum_ptr + part[:, None] * DIM_V + lane[None, :], sums, mask=(head < num_heads)[:, None] & (lane < DIM_V)[None, :])


@triton.jit
def _merge(
    sum_ptr,
    top_ptr,
    total_ptr,
    out_ptr,
    lse_ptr,
    kv_scale,
    empty_out,
    empty_lse,
    rows,
    IS_BF16: tl.constexpr,
    INTERPRETED: tl.constexpr,
    DIM_V: tl.constexpr,
    LATENT: tl.constexpr,
    SPLITS: tl.constexpr,
    HEADS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * HEADS + tl.arange(0, HEADS)
    here = row < rows
    top = tl.full([HEADS], float("-inf"), dtype=tl.float32)
    for nth in range(SPLITS):
        top = tl.maximum(top, tl.load(top_ptr + row * SPLITS + nth, mask=here, other=float("-inf")))
    seen = top > float("-inf")
    top = tl.where(seen, top, 0.0)
    lane = tl.arange(0, LATENT)
    mask = here[:, None] & (lane < DIM_V)[None, :]
    total = tl.zeros([HEADS], dtype=tl.float32)
    sums = tl.zeros([HEADS, LATENT], dtype=tl.float32)
    for nth in range(SPLITS):
        share = tl.exp2(tl.load(top_ptr + row * SPLITS + nth, mask=here, other=float("-inf")) - top)
        total += tl.load(total_ptr + row * SPLITS + nth, mask=here, other=0.0) * share
        sums += tl.load(sum_ptr + (row * SPLITS + nth)[:, None] * DIM_V + lane[None, :], mask=mask, other=0.0) * share[:, None]
    total = tl.where(seen, total, 1.0)
    number = tl.where(seen[:, None], sums / total[:, None] * kv_scale, empty_out)
    if IS_BF16:
        number = as_bf16(number, INTERPRETED)
    tl.store(out_ptr + row[:, None] * DIM_V + lane[None, :], number.to(out_ptr.dtype.element_ty), mask=mask)
    tl.store(lse_ptr + row, tl.where(seen, (top + tl.log2(total)) * 0.6931471805599453, empty_lse), mask=here)


def mla_decode(
    q: Any,
    kv_cache: Any,
    kv_indptr: Any,
    kv_indices: Any,
    last_page_len: Any,
    *,
    page_size: int,
    head_dim_v: int,
    softmax_scale: float,
    kv_format: str,
    kv_scale: float,
    num_splits: int,
    empty_row: str,
    out: Any,
    lse: Any,
    alloc: Any,
) -> dict[str, int]:
    """Attends to the cached latents of every request.

    Args:
        q: [batch, next_n, num_heads, head_dim] bfloat16. Queries; float16 where kv_format is fp16.
        kv_cache: [num_pages, page_size, 1, row_bytes] uint8. Contiguous.
        kv_indptr: [batch + 1] int32. Where each request's pages begin.
        kv_indices: [entries] int32. Page ids.
        last_page_len: [batch] int32. Tokens in the last page.
        page_size: tokens a page.
        head_dim_v: dims of V.
        softmax_scale: factor of the scores.
        kv_format: layout of the cache.
        kv_scale: factor of per-tensor FP8 codes.
        num_splits: parts of the context.
        empty_row: what a row that sees nothing holds.
        out: [batch, next_n, num_heads, head_dim_v] bfloat16. Written; q's dtype.
        lse: [batch, next_n, num_heads] float32. Written.
        alloc: guarded scratch.

    Returns:
        config: tile sizes that were launched.
    """
    batch, next_n, num_heads, head_dim = q.shape
    target = current(q.device)
    config = tiles(num_heads, head_dim, head_dim_v, target.backend)
    rows, dims = batch * next_n, {"DIM_V": head_dim_v, "LATENT": config["LATENT"]}
    sums = alloc((rows, num_heads, num_splits, head_dim_v), torch.float32, None)
    top = alloc((rows, num_heads, num_splits), torch.float32, None)
    total = alloc((rows, num_heads, num_splits), torch.float32, None)
    row_bytes = kv_cache.shape[-1]
    half = torch.float16 if kv_format == "fp16" else torch.bfloat16
    pairs = row_bytes % 2 == 0
    warps = {"num_warps": 8 if config["HEADS"] > 16 else 4, "num_stages": 1 if target.backend == "hip" else 2}
    common = {"INTERPRETED": target.interpreted, "SPLITS": num_splits}
    _part[(config["HEAD_TILES"] * num_splits * rows,)](
        q,
        kv_cache,
        kv_cache.view(half) if pairs else kv_cache,
        kv_cache.view(torch.float32) if kv_format == "fp8_656" else kv_cache,
        kv_indptr,
        kv_indices,
        last_page_len,
        sums,
        top,
        total,
        next_n,
        num_heads,
        page_size,
        softmax_scale * kv_scale * LOG2_E,
        FORMAT=FORMATS[kv_format],
        ROW=row_bytes,
        DIM=head_dim,
        ROPE=config["ROPE"],
        HEADS=config["HEADS"],
        HEAD_TILES=config["HEAD_TILES"],
        TOKENS=config["TOKENS"],
        **dims,
        **common,
        **warps,
    )
    nothing = {"zero_inf": float("inf"), "zero_minus_1e30": -1e30, "nan": float("nan")}.get(empty_row, 0.0)
    merged = min(triton.next_power_of_2(rows * num_heads), 256 if target.interpreted else 4)
    _merge[(triton.cdiv(rows * num_heads, merged),)](
        sums,
        top,
        total,
        out,
        lse,
        kv_scale,
        float("nan") if empty_row == "nan" else 0.0,
        nothing,
        rows * num_heads,
        IS_BF16=out.dtype == torch.bfloat16,
        HEADS=merged,
        **dims,
        **common,
    )
    return {**config, "SPLITS": num_splits}


def tiles(num_heads: int, head_dim: int, head_dim_v: int, backend: str) -> dict[str, int]:
    """Tile sizes: all heads at once under the interpreter, what registers and shared memory hold elsewhere.

    Args:
        num_heads: query heads.
        head_dim: QK width.
        head_dim_v: V width.
        backend: "hip", "cuda" or "interpreter".

    Returns:
        config: LATENT and ROPE, padded to powers of two; HEADS a tile, HEAD_TILES; TOKENS a tile.
    """
    heads = max(triton.next_power_of_2(num_heads), 16)
    tokens = INTERPRETED_TILE
    if backend != "interpreter":
        heads, tokens = min(heads, 64 if backend == "cuda" else 16), 32 if backend == "cuda" else 16
    latent = max(triton.next_power_of_2(head_dim_v), 16)
    rope = max(triton.next_power_of_2(head_dim - head_dim_v), 16)
    return {"LATENT": latent, "ROPE": rope, "HEADS": heads, "HEAD_TILES": triton.cdiv(num_heads, heads), "TOKENS": tokens}


def precision(params: dict[str, Any], device: dict[str, Any]) -> str:
    """P is stored in the format of the queries, and so is the output; both are rounded to nearest, by hand under the interpreter."""
    kind = "fp16" if params["kv_format"] == "fp16" else "bf16"
    return f"mla+u_p={kind}+u_out={kind}"
