"""Vector floating-point instructions. IEEE binary32 and 64 by numpy; fused operations rounded once; f16 through f32 or f64.

Transcendental instructions are computed in float64 and rounded: the card's last bits differ (up to 1 ulp by its manual).
"""

from __future__ import annotations

import numpy as np

from .decoder import Decoder, Step, op
from .vector import destination, sources, table

U32, U64, F16, F32, F64 = np.uint32, np.uint64, np.float16, np.float32, np.float64
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


def fma64(x, y, z):
    """Fused multiply-add of float64 by exact splitting (Dekker); plain where a part would overflow."""
    x, y, z = np.broadcast_arrays(x, y, z)
    product = x * y
    split = 134217729.0
    xh = x * split - (x * split - x)
    yh = y * split - (y * split - y)
    low = ((xh * yh - product) + xh * (y - yh) + (x - xh) * yh) + (x - xh) * (y - yh)
    total = product + z
    back = total - product
    error = (product - (total - back)) + (z - back)
    fused = total + (error + low)
    return np.where(np.isfinite(fused) & (np.abs(product) > 1e-250) & (np.abs(product) < 1e290), fused, total)


def f32max(x, y):
    """v_max: the other operand when one is NaN; +0 above -0."""
    r = np.fmax(x, y)
    return np.where(r == 0, np.where((x == 0) & (y == 0), x + y, r), r)


def f32min(x, y):
    """v_min: the other operand when one is NaN; -0 below +0."""
    r = np.fmin(x, y)
    minus = r.dtype.type(-1)
    return np.where(r == 0, np.where((x == 0) & (y == 0), minus * (minus * x + minus * y), r), r)


def med3(x, y, z):
    """The middle of three; the smallest when one is NaN."""
    any_nan = np.isnan(x) | np.isnan(y) | np.isnan(z)
    middle = np.maximum(np.minimum(x, y), np.minimum(np.maximum(x, y), z))
    return np.where(any_nan, np.fmin(np.fmin(x, y), z), middle)


def wide(fn):
    """A float32 function computed in float64 and rounded once."""
    return lambda x: np.asarray(fn(np.asarray(x).astype(F64))).astype(F32)


def half(fn):
    """A float16 function computed in float32 and rounded."""
    return lambda *x: np.asarray(fn(*(np.asarray(v).astype(F32) for v in x))).astype(F16)


def rsq(x):
    """1 / sqrt(x)."""
    return np.where(x == 0, np.copysign(np.inf, x), 1 / np.sqrt(np.asarray(x).astype(F64))).astype(np.asarray(x).dtype)


def fract(x):
    """x - floor(x), below 1."""
    r = x - np.floor(x)
    return np.where(
        np.isinf(x), np.asarray(x).dtype.type(0), np.minimum(r, np.nextafter(np.asarray(x).dtype.type(1), np.asarray(x).dtype.type(0)))
    )


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


def sine(fn):
    """v_sin and v_cos take turns, not radians."""
    return lambda x: np.where(np.isfinite(x), fn(2 * np.pi * np.remainder(np.asarray(x).astype(F64), 1.0)), np.nan).astype(F32)


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
        "v_mad_f32": ("f32", "f32 f32 f32", lambda x, y, z: x * y + z),
        "v_max_f32": ("f32", "f32 f32", f32max),
        "v_min_f32": ("f32", "f32 f32", f32min),
        "v_max3_f32": ("f32", "f32 f32 f32", f16_3(f32max)),
        "v_min3_f32": ("f32", "f32 f32 f32", f16_3(f32min)),
        "v_med3_f32": ("f32", "f32 f32 f32", med3),
        "v_maximum3_f32": ("f32", "f32 f32 f32", f16_3(np.maximum)),
        "v_minimum3_f32": ("f32", "f32 f32 f32", f16_3(np.minimum)),
        "v_rcp_f32": ("f32", "f32", wide(lambda x: 1 / x)),
        "v_rcp_iflag_f32": ("f32", "f32", wide(lambda x: 1 / x)),
        "v_rsq_f32": ("f32", "f32", rsq),
        "v_sqrt_f32": ("f32", "f32", np.sqrt),
        "v_exp_f32": ("f32", "f32", wide(np.exp2)),
        "v_log_f32": ("f32", "f32", wide(np.log2)),
        "v_sin_f32": ("f32", "f32", sine(np.sin)),
        "v_cos_f32": ("f32", "f32", sine(np.cos)),
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
        "v_mad_f16": ("f16", "f16 f16 f16", fma16),
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
    "v_mac_f32": ("f32", lambda x, y, z: x * y + z),
    "v_fmac_f64": ("f64", fma64),
    "v_fmac_f16": ("f16", fma16),
}


@op(*ACCUMULATE)
def accumulate(d: Decoder) -> Step:
    """Destination = source 0 * source 1 + destination."""
    kind, fn = ACCUMULATE[d.name]
    (a, b), lanes = sources(d, [kind, kind], [1, 2])
    c = d.source(0, kind)
    put = destination(d, kind, lanes)
    return lambda g: put(g, fn(a(g), b(g), c(g)))


@op("v_fmaak_f32", "v_fmamk_f32", "v_fmaak_f16", "v_fmamk_f16")
def with_literal(d: Decoder) -> Step:
    """Fused multiply-add with a literal factor or addend."""
    kind = d.name[-3:]
    fn = fma if kind == "f32" else fma16
    a, b, c = (d.source(i, kind) for i in (1, 2, 3))
    put = destination(d, kind)
    return lambda g: put(g, fn(a(g), b(g), c(g)))
