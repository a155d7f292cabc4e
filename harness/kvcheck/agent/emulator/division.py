"""The three instructions around a division: scaling, the fused step that scales back, and the special cases."""

from __future__ import annotations

import numpy as np

from .decoder import Decoder, Step, op
from .state import VCC, Group
from .vector import destination, sources
from .vector_float import fma, fma64

F32, F64 = np.float32, np.float64


@op("v_div_scale_f32", "v_div_scale_f64")
def div_scale(d: Decoder) -> Step:
    """Scales numerator or denominator of a division away from overflow and denormals; VCC marks lanes that v_div_fmas scales back."""
    kind = d.name[-3:]
    wide_, bias, small, big = (F64, 1023, -1022, 2.0**128) if kind == "f64" else (F32, 127, -126, F32(2.0**64))
    flags = d.scalar(1, 2)
    s0, s1, s2 = (d.source(i, kind) for i in (2, 3, 4))
    put = destination(d, kind)
    digits = 53 if kind == "f64" else 24
    gap, tiny = (768, -970) if kind == "f64" else (96, -103)

    def exponent(x):
        return np.frexp(x)[1] + bias - 1

    def run(g: Group) -> None:
        a, den, num = (np.broadcast_to(f(g), (g.size, 64)) for f in (s0, s1, s2))
        de, ne = exponent(den), exponent(num)
        result, vcc = a.copy(), np.zeros(a.shape, bool)
        is_den = a == den
        with np.errstate(all="ignore"):
            inverse, quotient = 1 / den, num / den
        lowest = wide_(2.0**small)
        tiny_inverse = (np.abs(inverse) < lowest) & (inverse != 0)
        tiny_quotient = np.abs(quotient) < lowest
        tiny_den = (np.abs(den) < lowest) & (den != 0)
        bad = (num == 0) | (den == 0)
        rules = [
            (bad, wide_(np.nan), None, None),
            (ne - de >= gap, None, is_den, True),
            (tiny_den, None, np.ones_like(is_den), False),
            (tiny_inverse & tiny_quotient, None, "denominator down", True),
            (tiny_inverse, None, "down", False),
            (tiny_quotient, None, a == num, True),
            (ne <= digits - 1, None, np.ones_like(is_den), False),
        ]
        done = np.zeros(a.shape, bool)
        for condition, value, scaled, mark in rules:
            now = condition & ~done
            done |= condition
            if value is not None:
                result = np.where(now, value, result)
            elif isinstance(scaled, str):
                result = np.where(now & (is_den if scaled == "denominator down" else True), a / big, result)
            else:
                result = np.where(now & scaled, a * big, result)
            if mark:
                vcc |= now
        put(g, result.astype(wide_))
        g.put_mask(flags, vcc & g.exec)

    return run


@op("v_div_fmas_f32", "v_div_fmas_f64")
def div_fmas(d: Decoder) -> Step:
    """Fused multiply-add, scaled back by a power of two in the lanes that VCC marks."""
    kind = d.name[-3:]
    fn, up, down = (fma, F32(2.0**64), F32(2.0**-64)) if kind == "f32" else (fma64, 2.0**128, 2.0**-128)
    a, b, c = (d.source(i, kind) for i in (1, 2, 3))
    put = destination(d, kind)
    d.reads_vcc()

    def run(g: Group) -> None:
        addend = c(g)
        value = fn(a(g), b(g), addend)
        put(g, np.where(g.mask(VCC), value * np.where(np.abs(addend) >= 1, up, down), value))

    return run


@op("v_div_fixup_f32", "v_div_fixup_f64", "v_div_fixup_f16")
def div_fixup(d: Decoder) -> Step:
    """The special cases of a division: source 0 is the quotient, 1 the denominator, 2 the numerator."""
    kind = d.name[-3:]
    (q, den, num), _ = sources(d, [kind] * 3, [1, 2, 3])
    put = destination(d, kind)

    def run(g: Group) -> None:
        x, y, z = q(g), den(g), num(g)
        dtype = x.dtype.type
        sign = np.signbit(y) ^ np.signbit(z)
        size = np.where((np.abs(y) == np.inf) | (z == 0), dtype(0), np.where((y == 0) | (np.abs(z) == np.inf), dtype(np.inf), np.abs(x)))
        size = np.where(np.isnan(size), dtype(np.inf), size)  # a quotient lost in the scaling had overflowed
        tiny = np.frexp(z)[1] - np.frexp(y)[1] < (-150 if kind == "f32" else -1075 if kind == "f64" else -25)
        size = np.where(tiny & (z != 0) & np.isfinite(z) & np.isfinite(y) & (y != 0), dtype(0), size)
        nan = np.isnan(y) | np.isnan(z) | ((y == 0) & (z == 0)) | (np.isinf(y) & np.isinf(z))
        put(g, np.where(nan, dtype(np.nan), np.copysign(size, np.where(sign, dtype(-1), dtype(1)))).astype(dtype))

    return run
