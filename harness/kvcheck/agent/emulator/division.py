"""The three instructions around a division: scaling, the fused step that scales back, and the special cases."""

from __future__ import annotations

import numpy as np

from .decoder import Decoder, Step, op
from .fused import exact_fma, fma, fma64, round_odd
from .state import VCC, Group
from .vector import destination, sources

F32, F64 = np.float32, np.float64


FORMATS = {"f32": (F32, np.uint32, 23, 127, 96, 64, 24), "f64": (F64, np.uint64, 52, 1023, 768, 128, 53)}
"""Type, unsigned type, fraction bits, bias, distance of exponents that needs scaling, power of two to scale by, exponent of a tiny
numerator."""


def exponent_field(x, kind: str):
    """The exponent bits of each element as int64: 0 for denormals."""
    _, unsigned, fraction, bias, *_ = FORMATS[kind]
    return ((np.ascontiguousarray(x).view(unsigned) >> unsigned(fraction)) & unsigned(2 * bias + 1)).astype(np.int64)


@op("v_div_scale_f32", "v_div_scale_f64")
def div_scale(d: Decoder) -> Step:
    """Scales numerator or denominator of a division away from overflow and denormals; VCC marks lanes that v_div_fmas scales back."""
    kind = d.name[-3:]
    dtype, unsigned, _, bias, far, power, tiny = FORMATS[kind]
    flags = d.scalar(1, 2)
    s0, s1, s2 = (d.source(i, kind) for i in (2, 3, 4))
    put = destination(d, kind)

    def run(g: Group) -> None:
        value, den, num = (np.ascontiguousarray(np.broadcast_to(f(g), (g.size, 64))) for f in (s0, s1, s2))
        de, ne = exponent_field(den, kind), exponent_field(num, kind)
        is_den = value.view(unsigned) == den.view(unsigned)
        apart = ne - de
        near_one = de >= 2 * bias - 1  # the denominator is so large that its reciprocal is a denormal
        rules = [
            (apart >= far, np.where(is_den, power, 0), True),
            (de == 0, power, False),
            (near_one & (apart <= -far), np.where(is_den, -power, 0), True),
            (near_one, -power, False),
            (apart <= -far, np.where(is_den, 0, power), True),
            (ne <= tiny, power, False),
        ]
        shift = np.select([r[0] for r in rules], [np.broadcast_to(r[1], de.shape) for r in rules], 0)
        post = np.select([r[0] for r in rules], [np.full(de.shape, r[2]) for r in rules], False)
        scaled = (value.astype(F64) * np.exp2(shift.astype(F64))).astype(dtype)
        put(g, np.where((num == 0) | (den == 0), dtype(np.nan), scaled))
        g.put_mask(flags, post & g.exec)

    return run


@op("v_div_fmas_f32", "v_div_fmas_f64")
def div_fmas(d: Decoder) -> Step:
    """Fused multiply-add; in the lanes that VCC marks scaled back by a power of two before it is rounded, up when the addend is 2 or
    more."""
    kind = d.name[-3:]
    _, _, _, bias, _, power, _ = FORMATS[kind]
    a, b, c = (d.source(i, kind) for i in (1, 2, 3))
    put = destination(d, kind)
    d.reads_vcc()

    def run(g: Group) -> None:
        x, y, z = np.broadcast_arrays(a(g), b(g), c(g))
        marked = g.mask(VCC)
        plain = fma(x, y, z) if kind == "f32" else fma64(x, y, z)
        if not marked.any():
            put(g, plain)
            return
        scale = np.where(exponent_field(z, kind) > bias, 2.0**power, 2.0**-power)
        if kind == "f32":
            back = (round_odd(x.astype(F64), y.astype(F64), z.astype(F64)) * scale).astype(F32)
        else:
            back = plain * scale
            for at in np.argwhere(
                marked & ~((np.abs(back) > 2.0**-1021) & np.isfinite(plain)) & np.isfinite(x) & np.isfinite(y) & np.isfinite(z)
            ):
                at = tuple(at)
                back[at] = exact_fma(float(x[at]), float(y[at]), float(z[at]), power if scale[at] > 1 else -power)
        put(g, np.where(marked, back, plain))

    return run


@op("v_div_fixup_f32", "v_div_fixup_f64", "v_div_fixup_f16")
def div_fixup(d: Decoder) -> Step:
    """The special cases of a division: source 0 is the quotient, 1 the denominator, 2 the numerator."""
    kind = d.name[-3:]
    (q, den, num), _ = sources(d, [kind] * 3, [1, 2, 3])
    put = destination(d, kind)

    def run(g: Group) -> None:
        x, y, z = np.broadcast_arrays(q(g), den(g), num(g))
        dtype = x.dtype.type
        nan = np.isnan(y) | np.isnan(z) | ((y == 0) & (z == 0)) | (np.isinf(y) & np.isinf(z))
        rules = [(y == 0) | np.isinf(z), np.isinf(y) | (z == 0)]
        results = [dtype(np.inf), dtype(0)]
        if kind != "f16":  # too small for the format; a quotient lost in the scaling had overflowed
            rules += [exponent_field(z, kind) - exponent_field(y, kind) < (-150 if kind == "f32" else -1075), ~np.isfinite(x)]
            results += [dtype(0), dtype(np.inf)]
        size = np.select(rules, results, np.abs(x)).astype(dtype)
        sign = np.where(np.signbit(y) ^ np.signbit(z), dtype(-1), dtype(1))
        put(g, np.where(nan, dtype(np.nan), np.copysign(size, sign)).astype(dtype))

    return run
