"""A second reference of `index_k_cache_write`, written independently: fractions, a search for the nearest code, bytes one at a time.

Slow on purpose; tests hold the fast reference against it.
Source: SEMANTICS 3 in words; no code is shared with `index_k_cache_write`.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from fractions import Fraction

import torch


def index_k_cache_write(
    k: torch.Tensor,
    slot_mapping: torch.Tensor,
    *,
    block_size: int,
    kv_dtype: str,
    scale_format: str,
    divisor: int,
    layout: str,
    out: torch.Tensor,
    alloc: object,
) -> torch.Tensor:
    """Quantises keys and writes them, one number at a time.

    Args:
        k: [tokens, head_dim] bfloat16. New keys.  # [tokens, head_dim]
        slot_mapping: [tokens] int64. Slots; -1: not written.  # [tokens]
        block_size: tokens a page.
        kv_dtype: e4m3fn or e4m3fnuz.
        scale_format: fp32 or ue8m0.
        divisor: what amax is divided by.
        layout: block_flat or shuffled.
        out: [num_blocks, block_size, 1, head_dim + 4] uint8. The cache before; not changed.  # [num_blocks, block_size, 1, head_dim + 4]
        alloc: not used.

    Returns:
        kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. The cache after.  # [num_blocks, block_size, 1, head_dim + 4]
    """
    head_dim = k.shape[1]
    pages = [bytearray(page.flatten().tolist()) for page in out.contiguous()]
    codes = list(range(0x7F if kv_dtype == "e4m3fn" else 0x80))
    numbers = [_magnitude(code, kv_dtype) for code in codes]
    (floor,) = struct.unpack("<f", struct.pack("<f", 1e-4))
    for key, slot in zip(k.float().tolist(), slot_mapping.tolist(), strict=True):
        if slot < 0:
            continue
        (scale,) = struct.unpack("<f", struct.pack("<f", max(floor, *(abs(x) for x in key)) / divisor))
        if scale_format == "ue8m0":
            power = 1.0
            while power < scale:
                power *= 2
            while power / 2 >= scale:
                power /= 2
            scale = power
        page = pages[slot // block_size]
        for dim, x in enumerate(key):
            code = _nearest(Fraction(abs(x)) / Fraction(scale), numbers)
            if math.copysign(1.0, x) < 0 and (code or kv_dtype == "e4m3fn"):
                code += 128
            page[_byte(slot % block_size, dim, head_dim, layout)] = code
        struct.pack_into("<f", page, block_size * head_dim + 4 * (slot % block_size), scale)
    return torch.tensor([list(page) for page in pages], dtype=torch.uint8).view(out.shape)


def _byte(token: int, dim: int, head_dim: int, layout: str) -> int:
    """Where a code lies in its page: tiles of 256 bytes, head_dim / 16 of them for each 16 tokens."""
    if layout == "block_flat":
        return token * head_dim + dim
    tile = (token // 16) * (head_dim // 16) + dim // 16
    return 256 * tile + 16 * (token % 16) + dim % 16


def _nearest(number: Fraction, numbers: list[Fraction]) -> int:
    """Index of the nearest of ascending numbers, of two equally near ones the even index."""
    above = min(bisect_left(numbers, number), len(numbers) - 1)
    below = max(above - 1, 0)
    gaps = (abs(number - numbers[below]), abs(numbers[above] - number))
    if gaps[0] == gaps[1]:
        return below if below % 2 == 0 else above
    return below if gaps[0] < gaps[1] else above


def _magnitude(code: int, kv_dtype: str) -> Fraction:
    """The number of a code below 128."""
    bias = 7 if kv_dtype == "e4m3fn" else 8
    exponent, fraction = divmod(code, 8)
    return Fraction(2) ** (max(exponent, 1) - bias) * (Fraction(fraction, 8) + (exponent > 0))
