"""Vector floating-point instructions. IEEE binary32 and 64 by numpy; fused operations rounded once; f16 through f32 or f64.

Transcendental instructions are computed in float64 and rounded: the card's last bits differ (up to 1 ulp by its manual).
"""

from __future__ import annotations

import numpy as np

from .decoder import Decoder, Step, op
from .fused import fma, fma16, fma64
from .vector import destination, sources, table

U32, U64, F16, F32, F64 = np.uint32, np.uint64, np.float16, np.float32, np.float64


def _quieted(r, x, y):
    """NaN where a source is a signalling NaN: kernels run with MODE's IEEE bit set."""
    quiet = {2: np.uint16(0x200), 4: U32(0x400000), 8: U64(1 << 51)}[r.itemsize]
    signalling = [np.isnan(v) & (np.ascontiguousarray(v).view(quiet.dtype) & quiet == 0) for v in (x, y)]
    return np.where(signalling[0] | signalling[1], r.dtype.type(np.nan), r)


def f32max(x, y):
    """v_max: the other operand when one is a quiet NaN; +0 above -0."""
    r, total = np.fmax(x, y), x + y
    if not r.all():
        r = np.where((x == 0) & (y == 0), total, r)
    return _quieted(r, x, y) if np.isnan(total).any() else r


def f32min(x, y):
    """v_min: the other operand when one is a quiet NaN; -0 below +0."""
    r, total = np.fmin(x, y), x + y
    if not r.all():
        r = np.where((x == 0) & (y == 0), -(-x - y), r)
    return _quieted(r, x, y) if np.isnan(total).any() else r


def maximum(x, y):
    """IEEE 754-2019 maximum: a NaN makes NaN; +0 above -0."""
    return np.where((x == 0) & (y == 0), x + y, np.maximum(x, y))


def minimum(x, y):
    """IEEE 754-2019 minimum."""
    return np.where((x == 0) & (y == 0), -(-x - y), np.minimum(x, y))


def med3(x, y, z):
    """The middle of three; the smallest when one is NaN."""
    any_nan = np.isnan(x) | np.isnan(y) | np.isnan(z)
    top = f32max(f32max(x, y), z)
    middle = np.where(top == x, f32max(y, z), np.where(top == y, f32max(x, z), f32max(x, y)))
    return np.where(any_nan, f32min(f32min(x, y), z), middle)


TINY = F32(2.0**-126)


def flush(x):
    """float32 with denormals as zeros of their sign."""
    return np.where(np.abs(x) < TINY, np.copysign(F32(0), x), x)


def rough(fn):
    """One of the card's quick float32 functions, computed in float64 and rounded: it flushes denormal sources and results."""
    return lambda x: flush(np.asarray(fn(flush(x).astype(F64))).astype(F32))


def half(fn):
    """A float16 function computed in float32 and rounded."""
    return lambda *x: np.asarray(fn(*(np.asarray(v).astype(F32) for v in x))).astype(F16)


def rsq(x):
    """1 / sqrt(x)."""
    return np.where(x == 0, np.copysign(np.inf, x), 1 / np.sqrt(np.asarray(x).astype(F64))).astype(np.asarray(x).dtype)


def fract(x):
    """x - floor(x), below 1."""
    one = np.asarray(x).dtype.type(1)
    return np.minimum(x - np.floor(x), np.nextafter(one, one - one))


def ldexp(x, n):
    """x * 2^n."""
    return np.ldexp(x.astype(F64), np.clip(n, -400, 400)).astype(x.dtype) if x.dtype != F64 else np.ldexp(x, n)


def frexp_exponent(x):
    """Exponent of x, 0 for infinities and NaN."""
    m, e = np.frexp(x)
    return np.where(np.isfinite(x), e, 0).astype(np.int32)


def frexp_mantissa(x):
    """Mantissa of x in 0.5..1."""
    m, _ = np.frexp(x)
    return np.where(np.isfinite(x), m, x).astype(x.dtype)


def sine(quarters):
    """v_sin and v_cos take turns, not radians; exact at multiples of a quarter turn."""

    def run(x):
        wide = np.where(np.isfinite(x), x, 0).astype(F64)
        part = wide - np.rint(wide)
        quarter = np.rint(4 * part)
        angle = 2 * np.pi * (part - quarter / 4)
        which = (quarter.astype(np.int64) + quarters) % 4
        value = np.where(which % 2 == 0, np.sin(angle), np.cos(angle)) * np.where(which < 2, 1.0, -1.0)
        value = np.where(value == 0, 0.0 if quarters else np.where(wide == 0, wide, 0.0), value)
        return np.where(np.isfinite(x), value, np.nan).astype(F32)

    return run


def legacy(x, y):
    """A product in which zero times anything is zero."""
    return np.where((x == 0) | (y == 0), F32(0), x * y)


def f16_3(fn):
    """A function of two applied to three sources."""
    return lambda x, y, z: fn(fn(x, y), z)


table(
    {
        "v_add_f32": ("f32", "f32 f32", np.add),
        "v_sub_f32": ("f32", "f32 f32", np.subtract),
        "v_subrev_f32": ("f32", "f32 f32", lambda x, y: y - x),
        "v_mul_f32": ("f32", "f32 f32", np.multiply),
        "v_mul_legacy_f32": ("f32", "f32 f32", legacy),
        "v_fma_f32": ("f32", "f32 f32 f32", fma),
        "v_max_f32": ("f32", "f32 f32", f32max),
        "v_min_f32": ("f32", "f32 f32", f32min),
        "v_max3_f32": ("f32", "f32 f32 f32", f16_3(f32max)),
        "v_min3_f32": ("f32", "f32 f32 f32", f16_3(f32min)),
        "v_med3_f32": ("f32", "f32 f32 f32", med3),
        "v_maximum3_f32": ("f32", "f32 f32 f32", f16_3(maximum)),
        "v_minimum3_f32": ("f32", "f32 f32 f32", f16_3(minimum)),
        "v_rcp_f32": ("f32", "f32", rough(lambda x: 1 / x)),
        "v_rcp_iflag_f32": ("f32", "f32", rough(lambda x: 1 / x)),
        "v_rsq_f32": ("f32", "f32", rough(rsq)),
        "v_sqrt_f32": ("f32", "f32", rough(np.sqrt)),
        "v_exp_f32": ("f32", "f32", rough(np.exp2)),
        "v_log_f32": ("f32", "f32", rough(np.log2)),
        "v_sin_f32": ("f32", "f32", sine(0)),
        "v_cos_f32": ("f32", "f32", sine(1)),
        "v_floor_f32": ("f32", "f32", np.floor),
        "v_ceil_f32": ("f32", "f32", np.ceil),
        "v_trunc_f32": ("f32", "f32", np.trunc),
        "v_rndne_f32": ("f32", "f32", np.rint),
        "v_fract_f32": ("f32", "f32", fract),
        "v_ldexp_f32": ("f32", "f32 i32", ldexp),
        "v_frexp_exp_i32_f32": ("i32", "f32", frexp_exponent),
        "v_frexp_mant_f32": ("f32", "f32", frexp_mantissa),
        "v_add_f16": ("f16", "f16 f16", half(np.add)),
        "v_sub_f16": ("f16", "f16 f16", half(np.subtract)),
        "v_subrev_f16": ("f16", "f16 f16", half(lambda x, y: y - x)),
        "v_mul_f16": ("f16", "f16 f16", half(np.multiply)),
        "v_fma_f16": ("f16", "f16 f16 f16", fma16),
        "v_max_f16": ("f16", "f16 f16", f32max),
        "v_min_f16": ("f16", "f16 f16", f32min),
        "v_max3_f16": ("f16", "f16 f16 f16", f16_3(f32max)),
        "v_min3_f16": ("f16", "f16 f16 f16", f16_3(f32min)),
        "v_med3_f16": ("f16", "f16 f16 f16", med3),
        "v_rcp_f16": ("f16", "f16", half(lambda x: 1 / x)),
        "v_sqrt_f16": ("f16", "f16", half(np.sqrt)),
        "v_rsq_f16": ("f16", "f16", half(rsq)),
        "v_exp_f16": ("f16", "f16", half(np.exp2)),
        "v_log_f16": ("f16", "f16", half(np.log2)),
        "v_floor_f16": ("f16", "f16", half(np.floor)),
        "v_ceil_f16": ("f16", "f16", half(np.ceil)),
        "v_trunc_f16": ("f16", "f16", half(np.trunc)),
        "v_rndne_f16": ("f16", "f16", half(np.rint)),
        "v_ldexp_f16": ("f16", "f16 i16", lambda x, n: np.ldexp(x.astype(F64), n.astype(np.int32)).astype(F16)),
        "v_add_f64": ("f64", "f64 f64", np.add),
        "v_mul_f64": ("f64", "f64 f64", np.multiply),
        "v_fma_f64": ("f64", "f64 f64 f64", fma64),
        "v_max_f64": ("f64", "f64 f64", f32max),
        "v_min_f64": ("f64", "f64 f64", f32min),
        "v_rcp_f64": ("f64", "f64", lambda x: 1 / x),
        "v_rsq_f64": ("f64", "f64", rsq),
        "v_sqrt_f64": ("f64", "f64", np.sqrt),
        "v_floor_f64": ("f64", "f64", np.floor),
        "v_ceil_f64": ("f64", "f64", np.ceil),
        "v_trunc_f64": ("f64", "f64", np.trunc),
        "v_rndne_f64": ("f64", "f64", np.rint),
        "v_fract_f64": ("f64", "f64", fract),
        "v_ldexp_f64": ("f64", "f64 i32", ldexp),
        "v_frexp_exp_i32_f64": ("i32", "f64", frexp_exponent),
        "v_frexp_mant_f64": ("f64", "f64", frexp_mantissa),
    }
)

ACCUMULATE = {
    "v_fmac_f32": ("f32", fma),
    "v_fmac_f64": ("f64", fma64),
}


@op(*ACCUMULATE)
def accumulate(d: Decoder) -> Step:
    """Destination = source 0 * source 1 + destination."""
    kind, fn = ACCUMULATE[d.name]
    (a, b), lanes = sources(d, [kind, kind], [1, 2])
    c = d.source(0, kind)
    put = destination(d, kind, lanes)
    return lambda g: put(g, fn(a(g), b(g), c(g)))


@op("v_fmaak_f32", "v_fmamk_f32")
def with_literal(d: Decoder) -> Step:
    """Fused multiply-add with a literal factor or addend."""
    a, b, c = (d.source(i, "f32") for i in (1, 2, 3))
    put = destination(d, "f32")
    return lambda g: put(g, fma(a(g), b(g), c(g)))
