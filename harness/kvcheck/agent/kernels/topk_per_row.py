"""Our own Triton kernel of the per-row top-k: a radix select, eight bits a pass, then one compaction.

Deterministic: the k largest values, ties at the k-th value to the lowest positions, positions in ascending order.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from kvcheck.agent.kernels.target import current


@triton.jit
def _ordered(value):
    """fp32 bits as uint32 that sort like the numbers; -0 counts as +0."""
    bits = tl.where(value == 0.0, 0.0, value).to(tl.int32, bitcast=True)
    return (bits ^ ((bits >> 31) & 0x7FFFFFFF)).to(tl.uint32, bitcast=True) ^ 0x80000000


@triton.jit
def _digit(line, length, prefix, wanted, SHIFT: tl.constexpr, FIRST: tl.constexpr, LANES: tl.constexpr):
    """Eight more bits of the k-th largest key, and how many keys with them are still wanted."""
    bins = tl.arange(0, 512)
    counts = tl.zeros([512], dtype=tl.int32)
    for start in range(0, length, LANES):
        position = start + tl.arange(0, LANES)
        live = position < length
        key = _ordered(tl.load(line + position, mask=live, other=0.0))
        if not FIRST:
            live = live & ((key >> (SHIFT + 8)) == prefix)
        # Lanes that do not count go to the upper half, which nobody reads.
        counts += tl.histogram(tl.where(live, ((key >> SHIFT) & 255).to(tl.int32), 256), 512)
    counts = tl.where(bins < 256, counts, 0)
    at_least = tl.sum(counts, axis=0) - tl.cumsum(counts, axis=0) + counts
    chosen = tl.max(tl.where((at_least >= wanted) & (bins < 256), bins, 0), axis=0)
    wanted -= tl.sum(tl.where(bins == chosen, at_least - counts, 0), axis=0)
    return (prefix << 8) | chosen.to(tl.uint32), wanted


@triton.jit
def _topk_per_row(
    logits_ptr,
    lens_ptr,
    out_ptr,
    next_n,
    topk,
    logits_stride,
    out_stride,
    PER_ROW: tl.constexpr,
    LANES: tl.constexpr,
    OUT_LANES: tl.constexpr,
):
    row = tl.program_id(0)
    if PER_ROW:
        length = tl.load(lens_ptr + row)
    else:
        length = tl.load(lens_ptr + row // next_n) - next_n + 1 + row % next_n
    length = tl.maximum(length, 0)
    line = logits_ptr + row.to(tl.int64) * logits_stride
    target = out_ptr + row.to(tl.int64) * out_stride
    if length <= topk:
        for start in range(0, topk, OUT_LANES):
            entry = start + tl.arange(0, OUT_LANES)
            tl.store(target + entry, tl.where(entry < length, entry, -1), mask=entry < topk)
    else:
        prefix = tl.full([], 0, tl.uint32)
        prefix, wanted = _digit(line, length, prefix, topk, 24, True, LANES)
        prefix, wanted = _digit(line, length, prefix, wanted, 16, False, LANES)
        prefix, wanted = _digit(line, length, prefix, wanted, 8, False, LANES)
        prefix, wanted = _digit(line, length, prefix, wanted, 0, False, LANES)
        ties = tl.full([], 0, tl.int32)
        filled = tl.full([], 0, tl.int32)
        for start in range(0, length, LANES):
            position = start + tl.arange(0, LANES)
            live = position < length
            key = _ordered(tl.load(line + position, mask=live, other=0.0))
            tie = live & (key == prefix)
            rank = ties + tl.cumsum(tie.to(tl.int32), axis=0)
            take = (live & (key > prefix)) | (tie & (rank <= wanted))
            place = filled + tl.cumsum(take.to(tl.int32), axis=0) - 1
            tl.store(target + place, position, mask=take)
            ties += tl.sum(tie.to(tl.int32), axis=0)
            filled += tl.sum(take.to(tl.int32), axis=0)


def topk_per_row(logits: Any, context_lens: Any, *, topk: int, next_n: int, out: Any) -> dict[str, int]:
    """Positions of the k largest logits of every row.

    Args:
        logits: [rows, max_model_len] float32. Scores; nothing past a row's length is read.
        context_lens: [batch] or [batch, next_n] int32. Lengths, or per-row lengths.
        topk: k.
        next_n: query tokens a sequence.
        out: [rows, topk] int32. Written whole.

    Returns:
        config: tile sizes that were launched.
    """
    interpreted = current(logits.device).interpreted
    lanes = min(max(triton.next_power_of_2(logits.shape[1]), 16), 1 << 18 if interpreted else 4096)
    config = {"LANES": lanes, "OUT_LANES": min(triton.next_power_of_2(topk), 1 << 16 if interpreted else 1024)}
    _topk_per_row[(logits.shape[0],)](
        logits,
        context_lens,
        out,
        next_n,
        topk,
        logits.stride(0),
        out.stride(0),
        PER_ROW=context_lens.dim() == 2,
        num_warps=8,
        **config,
    )
    return config
