"""How a CDNA3 matrix core adds products, bit by bit, vectorised over waves, rows and columns.

Source: the model that MMA-Sim measured (arXiv 2511.10909, microsoft/MMA-Sim). Differences: own code, whole matrices at once.
FP8: groups of 16 along K. Products at even and at odd places are each cut (toward zero) at 24 fraction bits below the largest exponent of
their
half; the halves are merged rounding down at 24 bits, then at 31 bits below E, the larger of that exponent and the accumulator's. The
accumulator
is rounded down at 24 bits below E, dropped when it is below 2^(E-25). The total is rounded to nearest even.
f16, bf16 (groups of 8) and xf32 (groups of 4): the same without halves and without the drop. f32 and f64: a chain of fused multiply-adds.
An exponent is that of the operand as its format holds it: a subnormal has its format's smallest, a zero -126. A product of 2^128 and more
is an
infinity before anything is added. xf32 operands are cut, not rounded, to 10 fraction bits (mfma.py).
"""

from __future__ import annotations

import numpy as np

from .fused import fma, fma64

F32, F64, I16, I32, I64 = np.float32, np.float64, np.int16, np.int32, np.int64
ZERO = -126
LOWEST = {"fp8": -7, "bf8": -15, "f16": -14, "bf16": -126, "xf32": -126, "f32": -126}
"""Smallest exponent of a format (FNUZ for the 8-bit ones)."""
CELLS = 1 << 14
"""Results worked on at once: what the processor's second cache holds with all intermediate values."""


def power(n: np.ndarray) -> np.ndarray:
    """2^n as float64 for integers in -1022..1023."""
    return ((np.clip(n, -1022, 1023).astype(I64) + 1023) << 52).view(F64)


def exponents(x: np.ndarray, lowest: int) -> np.ndarray:
    """Exponent of each value as its format holds it (int16)."""
    e = ((np.ascontiguousarray(x, F32).view(np.uint32) >> np.uint32(23)) & np.uint32(255)).astype(I16) - I16(127)
    return np.where(x == 0, I16(ZERO), np.maximum(e, I16(lowest)))


def largest(ea: np.ndarray, eb: np.ndarray) -> np.ndarray:
    """Largest ea + eb along K for every row and column."""
    top = np.full((ea.shape[0], ea.shape[1], eb.shape[1]), ZERO * 2, I16)
    for i in range(ea.shape[2]):
        np.maximum(top, ea[:, :, None, i] + eb[:, None, :, i], out=top)
    return top


def cut_sum(a: np.ndarray, b: np.ndarray, top: np.ndarray, narrow: bool) -> np.ndarray:
    """Sum of products, each cut at 24 fraction bits below `top`, in units of 2^(top-24)."""
    if narrow:  # 8-bit formats: a product scaled by a power of two is exact in float32, and the sum fits in 32 bits
        scale = np.where(top < -100, 1.0, power(24 - top.astype(I32))).astype(F32)  # so low only when all products are zero
        total = np.zeros(top.shape, I32)
        for i in range(a.shape[2]):
            total += ((a[:, :, None, i] * scale) * b[:, None, :, i]).astype(I32)
        return total.astype(F64)
    scale, wide = power(24 - top.astype(I32)), np.zeros(top.shape, F64)
    for i in range(a.shape[2]):
        wide += np.trunc(a[:, :, None, i].astype(F64) * b[:, None, :, i] * scale)
    return wide


def accumulate(sums: np.ndarray, top: np.ndarray, c: np.ndarray, drop: bool) -> np.ndarray:
    """Adds the accumulator to a sum in units of 2^(top-24)."""
    ec = np.where(c == 0, I16(ZERO), exponents(c, -126)).astype(I32)
    high = np.maximum(top, ec)
    merged = np.floor(sums * power(top - high + 7))
    kept = np.floor(c.astype(F64) * power(24 - high))
    if drop:
        kept = np.where(ec < high - 25, 0.0, kept)
    return ((merged + kept * 128.0) * power(high - 31)).astype(F32)


class Overflow:
    """Products of 2^128 and more: the first group that has some decides, NaN when it has both signs."""

    def __init__(self, a: np.ndarray, b: np.ndarray) -> None:
        self.possible = bool(a.size) and float(np.abs(a).max()) * float(np.abs(b).max()) >= 2.0**128
        self.value: np.ndarray | None = None

    def look(self, a: np.ndarray, b: np.ndarray) -> None:
        """Notes the products of a group."""
        if not self.possible:
            return
        p = a.astype(F64)[:, :, None] * b.astype(F64)[:, None]
        up, down = (p >= 2.0**128).any(-1), (p <= -(2.0**128)).any(-1)
        now = np.where(up & down, np.nan, np.where(up, np.inf, np.where(down, -np.inf, 0.0)))
        self.value = now if self.value is None else np.where(self.value == 0, now, self.value)

    def apply(self, total: np.ndarray) -> np.ndarray:
        """The sums, or what the overflow made of them."""
        return total if self.value is None else np.where(self.value == 0, total, self.value).astype(F32)


def multiply(a: np.ndarray, b: np.ndarray, c: np.ndarray, left: str, right: str) -> np.ndarray:
    """a: [wave, M, K], b: [wave, N, K], c: [wave, M, N] float32. Returns float32 [wave, M, N]."""
    share = max(1, CELLS // (a.shape[1] * b.shape[1]))
    if a.shape[0] > share:
        parts = [slice(i, i + share) for i in range(0, a.shape[0], share)]
        return np.concatenate([multiply(a[at], b[at], c[at], left, right) for at in parts])
    if left == "f32":
        total = c
        for i in range(a.shape[2]):
            total = fma(a[:, :, None, i], b[:, None, :, i], total)
        return total
    special = not (np.isfinite(a).all() and np.isfinite(b).all() and np.isfinite(c).all())
    with_special = (a, b, c)
    if special:
        a, b, c = (np.nan_to_num(x, nan=0, posinf=0, neginf=0) for x in (a, b, c))
    ea, eb = exponents(a, LOWEST[left]), exponents(b, LOWEST[right])
    narrow = left in ("fp8", "bf8")
    step = 16 if narrow else 4 if left == "xf32" else 8
    total, huge = c, Overflow(a, b)
    for k in range(0, a.shape[2], step):
        if narrow:
            halves = []
            for first in (0, 1):
                at = slice(k + first, k + step, 2)
                top = largest(ea[:, :, at], eb[:, :, at])
                halves.append((cut_sum(a[:, :, at], b[:, :, at], top, True), top.astype(I32)))
            (s0, t0), (s1, t1) = halves
            top = np.maximum(t0, t1)
            sums = np.floor(s0 * power(t0 - top)) + np.floor(s1 * power(t1 - top))
        else:
            at = slice(k, k + step)
            top = largest(ea[:, :, at], eb[:, :, at]).astype(I32)
            sums = cut_sum(a[:, :, at], b[:, :, at], top, False)
            huge.look(a[:, :, at], b[:, :, at])
        total = accumulate(sums, top, total, narrow)
    total = huge.apply(total)
    if special:
        a, b, c = with_special
        plain = a.astype(F64) @ b.astype(F64).transpose(0, 2, 1) + c
        total = np.where(np.isfinite(plain), total, plain.astype(F32))
    return total


def multiply_f64(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The same for float64: a chain of fused multiply-adds along K."""
    for i in range(a.shape[2]):
        c = fma64(a[:, :, None, i], b[:, None, :, i], c)
    return c
