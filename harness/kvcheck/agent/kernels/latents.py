"""Tiles of a latent cache in Triton: every format of `layouts.mla`, and the rounding to bf16, alike on a card and under the interpreter."""

from __future__ import annotations

import triton
import triton.language as tl

FP16, E4M3FN, E4M3FNUZ, TOKEN_656 = tl.constexpr(1), tl.constexpr(2), tl.constexpr(3), tl.constexpr(4)
FORMATS = {"bf16": 0, "fp16": 1, "e4m3fn": 2, "e4m3fnuz": 3, "fp8_656": 4}


@triton.jit
def _from_code(code, FNUZ: tl.constexpr):
    """FP8 codes as fp16, exactly: the bits of an e4m3 number, moved into an fp16's place, are that number times
    2**(bias - 15), subnormals included. NaN codes are NaN."""
    bits = ((code.to(tl.int16) & 128) << 8) | ((code.to(tl.int16) & 127) << 7)
    number = bits.to(tl.float16, bitcast=True) * (128.0 if FNUZ else 256.0)
    return tl.where(code == 128 if FNUZ else (code & 127) == 127, float("nan"), number)


@triton.jit
def as_bf16(x, INTERPRETED: tl.constexpr):
    """fp32 to bf16, to nearest even; the interpreter would truncate, and multiplies bf16 wrongly: fp32 in its place."""
    if INTERPRETED:
        bits = x.to(tl.int32, bitcast=True)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & -65536
        return tl.where(x == x, rounded, bits).to(tl.float32, bitcast=True)
    else:
        return x.to(tl.bfloat16)


@triton.jit
def latent(
    byte_ptr, half_ptr, word_ptr, row, dim, mask, FORMAT: tl.constexpr, INTERPRETED: tl.constexpr, ROPE: tl.constexpr, ROW: tl.constexpr
):
    """A tile of numbers in the format that is multiplied. `row` and `dim` broadcast against each other."""
    if FORMAT < E4M3FN:
        number = tl.load(half_ptr + row * (ROW // 2) + dim, mask=mask, other=0.0)
    elif FORMAT == TOKEN_656:
        if ROPE:
            number = tl.load(half_ptr + row * 328 + 264 + dim, mask=mask, other=0.0)
        else:
            code = tl.load(byte_ptr + row * 656 + dim, mask=mask, other=0)
            scale = tl.load(word_ptr + row * 164 + 128 + dim // 128, mask=mask, other=0.0)
            number = as_bf16(_from_code(code, False).to(tl.float32) * scale, INTERPRETED)
    else:
        code = tl.load(byte_ptr + row * ROW + dim, mask=mask, other=0)
        number = _from_code(code, FORMAT == E4M3FNUZ).to(tl.float32)
        if not INTERPRETED:
            number = number.to(tl.bfloat16)
    if INTERPRETED:
        number = number.to(tl.float32)
    return number
