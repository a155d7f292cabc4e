"""Arithmetic rounded once, by rational numbers: what the float instructions are compared with."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

FORMATS = {"f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}
"""Bits of the significand, smallest and largest exponent."""
TYPES = {"f16": np.float16, "bf16": np.float32, "f32": np.float32, "f64": np.float64}


def nearest(value: Fraction, kind: str, sign: float = 1.0) -> float:
    """A rational number rounded to nearest even in a format; `sign` is that of a zero."""
    if value == 0:
        return math.copysign(0.0, sign)
    digits, low, high = FORMATS[kind]
    e = abs(value.numerator).bit_length() - value.denominator.bit_length()
    e = e if abs(value) >= Fraction(2) ** e else e - 1
    unit = Fraction(2) ** (max(e, low) - digits + 1)
    rounded = round(value / unit) * unit
    if abs(rounded) >= Fraction(2) ** (high + 1):
        return math.inf if value > 0 else -math.inf
    return float(rounded) if rounded else math.copysign(0.0, 1 if value > 0 else -1)


def fma(x: float, y: float, z: float, kind: str, scale: int = 0) -> float:
    """(x * y + z) * 2^scale with one rounding."""
    if not (math.isfinite(x) and math.isfinite(y)):
        return x * y + z
    if not math.isfinite(z):
        return z
    product = Fraction(x) * Fraction(y)
    total = product + Fraction(z)
    if total == 0:
        if product == 0 and z == 0:
            return math.copysign(1, x) * math.copysign(1, y) * 0.0 + z
        return 0.0
    return nearest(total * Fraction(2) ** scale, kind)


def fused(kind: str):
    """A fused multiply-add of three columns of a kind."""
    return lambda a, b, c: np.array([fma(float(x), float(y), float(z), kind) for x, y, z in zip(a, b, c, strict=True)], TYPES[kind])


def signalling(x: np.ndarray) -> np.ndarray:
    """Which elements are signalling NaNs."""
    quiet = {2: 0x200, 4: 0x400000, 8: 1 << 51}[x.itemsize]
    return np.isnan(x) & (x.view(f"u{x.itemsize}") & np.asarray(quiet, f"u{x.itemsize}") == 0)


def larger(x, y):
    """v_max with IEEE mode on, as kernels run: a signalling NaN makes NaN, a quiet one gives way, +0 is above -0."""
    pick = np.where((x > y) | ((x == y) & ~np.signbit(x)), x, y)
    return np.where(signalling(x) | signalling(y), x.dtype.type(np.nan), np.where(np.isnan(x), y, np.where(np.isnan(y), x, pick)))


def smaller(x, y):
    """v_min, likewise."""
    pick = np.where((x < y) | ((x == y) & np.signbit(x)), x, y)
    return np.where(signalling(x) | signalling(y), x.dtype.type(np.nan), np.where(np.isnan(x), y, np.where(np.isnan(y), x, pick)))


def middle(x, y, z):
    """v_med3: the smallest when one is NaN."""
    nan = np.isnan(x) | np.isnan(y) | np.isnan(z)
    top = larger(larger(x, y), z)
    plain = np.where(top == x, larger(y, z), np.where(top == y, larger(x, z), larger(x, y)))
    return np.where(nan, smaller(smaller(x, y), z), plain)


def ieee(fn):
    """maximum or minimum of IEEE 754-2019: any NaN makes NaN."""
    return lambda x, y: np.where(np.isnan(x) | np.isnan(y), x.dtype.type(np.nan), fn(x, y))
