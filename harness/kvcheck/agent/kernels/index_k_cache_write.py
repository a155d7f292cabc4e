"""Our own Triton kernel of the indexer's key writer: one program quantises a few tokens and stores codes and scales by byte offset.

Rounding to FP8 and to powers of two is integer arithmetic, so it is the same under the interpreter (whose casts are not) and on chips
without the format.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from kvcheck.agent.kernels.target import current


@triton.jit
def _fp8_code(size, negative, LARGEST: tl.constexpr, BIAS: tl.constexpr, SIGNED_ZERO: tl.constexpr):
    """Nearest e4m3 code of a magnitude, ties to even, saturated; `negative` is 0 or 1."""
    size = tl.minimum(size, LARGEST)
    bits = size.to(tl.int32, bitcast=True)
    normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20) - (127 - BIAS) * 8
    # Added to 2**(21 - BIAS), a subnormal is rounded to its unit, and stands in the low bits.
    anchor = tl.full([], 2.0 ** (21 - BIAS), tl.float32)
    small = (size + anchor).to(tl.int32, bitcast=True) - anchor.to(tl.int32, bitcast=True)
    code = tl.where(size < 2.0 ** (1 - BIAS), small, normal)
    if SIGNED_ZERO:
        return code + negative * 128
    return tl.where(code > 0, code + negative * 128, code)


@triton.jit
def _index_k_cache_write(
    k_ptr,
    slots_ptr,
    byte_ptr,
    scale_ptr,
    tokens,
    head_dim,
    block_size,
    k_stride,
    page_words,
    DIVISOR: tl.constexpr,
    UE8M0: tl.constexpr,
    SHUFFLED: tl.constexpr,
    LARGEST: tl.constexpr,
    BIAS: tl.constexpr,
    TOKENS: tl.constexpr,
    DIM: tl.constexpr,
):
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    slot = tl.load(slots_ptr + token, mask=token < tokens, other=-1)
    live = slot >= 0
    lane = tl.arange(0, DIM)
    mask = live[:, None] & (lane < head_dim)[None, :]
    key = tl.load(k_ptr + token.to(tl.int64)[:, None] * k_stride + lane[None, :], mask=mask, other=0.0)
    sign = (key.to(tl.int16, bitcast=True).to(tl.int32) >> 15) & 1
    number = tl.abs(key.to(tl.float32))
    scale = tl.div_rn(tl.maximum(tl.max(number, axis=1), 1e-4), tl.full([TOKENS], DIVISOR, tl.float32))
    if UE8M0:
        scale = (((scale.to(tl.int32, bitcast=True) + 0x7FFFFF) >> 23) << 23).to(tl.float32, bitcast=True)
    quotient = tl.div_rn(number, tl.broadcast_to(scale[:, None], [TOKENS, DIM]))
    code = _fp8_code(quotient, sign, LARGEST, BIAS, BIAS == 7)
    page, offset = slot // block_size, slot % block_size
    at = offset[:, None] * head_dim + lane[None, :]
    if SHUFFLED:
        at = (offset // 16)[:, None] * (16 * head_dim) + (lane // 16 * 256 + lane % 16)[None, :] + (offset % 16)[:, None] * 16
    tl.store(byte_ptr + page[:, None] * (page_words * 4) + at, code.to(tl.uint8), mask=mask)
    tl.store(scale_ptr + page * page_words + block_size * head_dim // 4 + offset, scale, mask=live)


def index_k_cache_write(
    k: Any,
    slot_mapping: Any,
    *,
    block_size: int,
    kv_dtype: str,
    scale_format: str,
    divisor: int,
    layout: str,
    out: Any,
    alloc: Any = None,
) -> dict[str, int]:
    """Quantises keys and writes them into their slots.

    Args:
        k: [tokens, head_dim] bfloat16. New keys.
        slot_mapping: [tokens] int64. Slots; -1: not written.
        block_size: tokens a page.
        kv_dtype: e4m3fn or e4m3fnuz.
        scale_format: fp32 or ue8m0.
        divisor: what amax is divided by.
        layout: block_flat or shuffled.
        out: [num_blocks, block_size, 1, head_dim + 4] uint8. The cache; pages may lie apart, a multiple of 4 bytes.
        alloc: not used.

    Returns:
        config: tile sizes that were launched.
    """
    tokens, head_dim = k.shape
    flat = out.view(out.shape[0], -1)
    most = 256 if current(k.device).interpreted else 8
    config = {"TOKENS": min(triton.next_power_of_2(tokens), most), "DIM": triton.next_power_of_2(head_dim)}
    _index_k_cache_write[(triton.cdiv(tokens, config["TOKENS"]),)](
        k,
        slot_mapping,
        flat,
        flat.view(torch.float32),
        tokens,
        head_dim,
        block_size,
        k.stride(0),
        flat.stride(0) // 4,
        DIVISOR=float(divisor),
        UE8M0=scale_format == "ue8m0",
        SHUFFLED=layout == "shuffled",
        LARGEST={"e4m3fn": 448.0, "e4m3fnuz": 240.0}[kv_dtype],
        BIAS={"e4m3fn": 7, "e4m3fnuz": 8}[kv_dtype],
        num_warps=4,
        **config,
    )
    return config
