"""The two 8-bit floats of the index cache, by table.

    e4m3fn    bias 7, largest 448 (0x7e), NaN 0x7f and 0xff, -0 is 0x80
    e4m3fnuz  bias 8, largest 240 (0x7f), NaN 0x80 alone, no -0

Written apart from the decoding in each reference on purpose: a shared helper would hide a layout fault on both sides.
Source: OCP OFP8 specification 1.0 (e4m3fn); AMD CDNA3 ISA guide, FP8 (e4m3fnuz).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable

MAXIMUM = {"e4m3fn": 448.0, "e4m3fnuz": 240.0}
NAN_CODES = {"e4m3fn": (0x7F, 0xFF), "e4m3fnuz": (0x80,)}
BIAS = {"e4m3fn": 7, "e4m3fnuz": 8}


def torch_dtype(kv_dtype: str) -> Any:
    """The torch dtype of a `kv_dtype`."""
    import torch

    return {"e4m3fn": torch.float8_e4m3fn, "e4m3fnuz": torch.float8_e4m3fnuz}[kv_dtype]


@lru_cache(maxsize=None)
def values(kv_dtype: str) -> tuple[float, ...]:
    """The 256 values by code; NaN codes are NaN."""
    table = []
    for code in range(256):
        exponent, mantissa = code >> 3 & 15, code & 7
        magnitude = mantissa / 8 * 2.0 ** (1 - BIAS[kv_dtype]) if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - BIAS[kv_dtype])
        table.append(float("nan") if code in NAN_CODES[kv_dtype] else -magnitude if code & 128 else magnitude)
    return tuple(table)


def decode(codes: Any, kv_dtype: str) -> Any:
    """Numbers of FP8 codes.

    Args:
        codes: [...] uint8. FP8 codes.
        kv_dtype: format.

    Returns:
        numbers: [...] float64. Exact.
    """
    return _table(values, kv_dtype, codes.device)[codes.int()]


def powers(codes: Any, kv_dtype: str) -> Any:
    """2**exponent of the unnormalised significand: what a fused multiplier aligns to.

    Args:
        codes: [...] uint8. FP8 codes, no NaN.
        kv_dtype: format.

    Returns:
        powers: [...] float64. Subnormals count as the smallest normal exponent; zero is 0.
    """
    return _table(_powers, kv_dtype, codes.device)[codes.int()]


def encode(numbers: Any, kv_dtype: str) -> Any:
    """Nearest FP8 codes, ties to even, magnitudes past the largest saturate.

    Args:
        numbers: [...] float64. Finite.
        kv_dtype: format.

    Returns:
        codes: [...] uint8. Never a NaN code; a zero is 0x00.
    """
    import torch

    positive = [v for v in values(kv_dtype)[:128] if v == v]
    middles = torch.tensor([(a + b) / 2 for a, b in zip(positive, positive[1:], strict=False)], dtype=torch.float64)
    magnitude = numbers.abs()
    code = torch.searchsorted(middles, magnitude)
    tie = (middles[code.clamp(max=len(middles) - 1)] == magnitude) & (code % 2 == 1)
    code += tie
    code[(numbers < 0) & (code > 0)] += 128
    return code.to(torch.uint8)


def _powers(kv_dtype: str) -> tuple[float, ...]:
    return tuple(2.0 ** (max(code >> 3 & 15, 1) - BIAS[kv_dtype]) if code & 127 else 0.0 for code in range(256))


@lru_cache(maxsize=None)
def _table(numbers: Callable[[str], tuple[float, ...]], kv_dtype: str, device: Any) -> Any:
    """A table on a device, made once: [256] float64."""
    import torch

    return torch.tensor(numbers(kv_dtype), dtype=torch.float64, device=device)
