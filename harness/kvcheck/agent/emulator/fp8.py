"""FP8 and FP4 bytes: tables of values, and rounding to them. FNUZ on gfx942, OCP on gfx950.

Source: OCP 8-bit floating point 1.0; NUMERICS 9.1 (FNUZ 0x80 is NaN, its largest value 240; OCP 0x7f and 0xff are NaN, 448).
"""

from __future__ import annotations

import numpy as np


def table(mantissa: int, fnuz: bool) -> np.ndarray:
    """The 256 values of a format as float32: e4m3 with mantissa 3, e5m2 with 2."""
    exponent_bits = 7 - mantissa
    bias = (1 << (exponent_bits - 1)) - (0 if fnuz else 1)
    out = np.zeros(256, np.float32)
    for byte in range(256):
        e, m = (byte & 0x7F) >> mantissa, byte & ((1 << mantissa) - 1)
        value = m * 2.0 ** (1 - bias - mantissa) if e == 0 else (1 + m / 2**mantissa) * 2.0 ** (e - bias)
        if fnuz:
            value = np.nan if byte == 0x80 else value
        elif mantissa == 3:
            value = np.nan if (byte & 0x7F) == 0x7F else value
        elif e == 31:
            value = np.inf if m == 0 else np.nan
        out[byte] = -value if byte & 0x80 and not (fnuz and byte == 0x80) else value
    return out


class Format:
    """One 8-bit float format: its table, its largest value, and rounding to nearest even."""

    def __init__(self, mantissa: int, fnuz: bool) -> None:
        self.mantissa, self.fnuz = mantissa, fnuz
        self.values = table(mantissa, fnuz)
        self.bias = (1 << (6 - mantissa)) - (0 if fnuz else 1)
        finite = self.values[:128][np.isfinite(self.values[:128])]
        self.largest = float(finite.max())
        self.largest_byte = int(np.nonzero(self.values[:128] == self.largest)[0][0])
        self.nan = 0x80 if fnuz else 0x7F
        self.overflow = 0x80 if fnuz else 0x7F if mantissa == 3 else 0x7C

    def encode(self, x: np.ndarray, saturate: bool) -> np.ndarray:
        """float32 to bytes (uint32). Out of range: the largest value when saturating, else NaN (e5m2 OCP: infinity).

        NaN stays NaN; an infinity stays one when not saturating; FNUZ has no -0.
        """
        x = np.asarray(x, np.float32)
        size = np.abs(x).astype(np.float64)
        _, e = np.frexp(size)
        step = np.ldexp(1.0, np.maximum(e - 1, 1 - self.bias) - self.mantissa)
        rounded = np.rint(np.where(np.isfinite(size), size, 0) / step) * step
        m, e = np.frexp(rounded)
        e = np.maximum(e - 1, 1 - self.bias)
        mantissa = np.rint(rounded / np.ldexp(1.0, e - self.mantissa)).astype(np.int64)
        code = np.where(mantissa < (1 << self.mantissa), mantissa, ((e + self.bias) << self.mantissa) + mantissa - (1 << self.mantissa))
        over = (rounded > self.largest) | np.isinf(size)
        code = np.where(over, self.largest_byte if saturate else self.overflow, code)
        sign = np.where(np.signbit(x), 0x80, 0)
        if self.fnuz:
            sign = np.where((code == 0) | (code == 0x80), 0, sign)
        code = np.where(np.isnan(x), self.nan, code | sign)
        return code.astype(np.uint32)


FNUZ = {"fp8": Format(3, True), "bf8": Format(2, True)}
OCP = {"fp8": Format(3, False), "bf8": Format(2, False)}
FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def formats(arch: str) -> dict[str, Format]:
    """The two formats of a target, by the names of its instructions (fp8, bf8)."""
    return FNUZ if arch == "gfx942" else OCP


def e8m0(byte: np.ndarray) -> np.ndarray:
    """Scale bytes as float64: 2^(b - 127), NaN for 0xff."""
    return np.where(byte == 0xFF, np.nan, np.exp2(byte.astype(np.float64) - 127))
