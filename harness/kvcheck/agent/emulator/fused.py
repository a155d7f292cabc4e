"""Fused multiply-adds of float16, float32 and float64, rounded once."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

U64, F16, F32, F64 = np.uint64, np.float16, np.float32, np.float64
_TIE, _BELOW = U64(0x10000000), U64(0x1FFFFFFF)


def round_odd(x, y, z):
    """x*y + z for float64 holding float32 values, rounded to odd in float64, so that a later rounding to float32 is the only one."""
    product = x * y
    total = product + z
    back = total - product
    error = (product - (total - back)) + (z - back)
    word = total.view(U64)
    inexact = (error != 0) & np.isfinite(total) & ((word & U64(1)) == 0)
    away = (error > 0) == (total > 0)
    return np.where(inexact, np.where(away, word + U64(1), word - U64(1)), word).view(F64)


def fma(x, y, z):
    """Fused multiply-add of float32, rounded once."""
    a, b, c = np.asarray(x, F64), np.asarray(y, F64), np.asarray(z, F64)
    total = np.asarray(a * b + c)
    risky = ((total.view(U64) & _BELOW) == _TIE) | (np.abs(total) < 2.0**-126)
    if risky.any():
        total = round_odd(a, b, c)
    return total.astype(F32)


def fma16(x, y, z):
    """Fused multiply-add of float16 by way of float64."""
    return (x.astype(F64) * y.astype(F64) + z.astype(F64)).astype(F16)


def exact_fma(x: float, y: float, z: float, shift: int = 0) -> float:
    """(x * y + z) * 2^shift of finite float64 values in rational arithmetic, rounded once: for the few that the fast way is unsure of."""
    product = Fraction(x) * Fraction(y)
    total = product + Fraction(z)
    if total == 0:
        return x * y + z if product == 0 else 0.0
    try:
        return float(total * Fraction(2) ** shift) or math.copysign(0.0, 1 if total > 0 else -1)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def two_sum(a, b):
    """A float64 sum and its rounding error."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def fma64(x, y, z):
    """Fused multiply-add of float64 (Dekker's product, two sums, the rest rounded to odd: Boldo and Melquiond 2008)."""
    x, y, z = np.broadcast_arrays(x, y, z)
    high = x * y
    split = 134217729.0
    xh, yh = x * split - (x * split - x), y * split - (y * split - y)
    low = ((xh * yh - high) + xh * (y - yh) + (x - xh) * yh) + (x - xh) * (y - yh)
    th, tl = two_sum(z, low)
    vh, vl = two_sum(high, th)
    rest, error = two_sum(tl, vl)
    word = rest.view(U64)
    odd = np.where((error != 0) & (word & U64(1) == 0), np.where((error > 0) == (rest > 0), word + U64(1), word - U64(1)), word).view(F64)
    plain = high + z
    finite = np.isfinite(x) & np.isfinite(y)
    product_is_zero = (x == 0) | (y == 0)
    result = np.where(finite & ~product_is_zero & np.isfinite(z), vh + odd, np.where(finite & ~np.isfinite(z), z, plain))
    size, add = np.abs(high), np.abs(z)
    safe = (size > 1e-240) & (size < 1e300) & (np.maximum(np.abs(x), np.abs(y)) < 1e300) & (add < 1e300) & ((add > 1e-240) | (add == 0))
    for at in np.argwhere(finite & np.isfinite(z) & ~product_is_zero & ~safe):
        at = tuple(at)
        result[at] = exact_fma(float(x[at]), float(y[at]), float(z[at]))
    return result
