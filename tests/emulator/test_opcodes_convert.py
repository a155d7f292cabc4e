"""Conversions over edge values: integers by Python's, floats by rational numbers, FP8 and FP4 by search in a decoded table."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from . import asm, exact, opcodes
from .test_opcodes_packed import glue

F16, F32, F64 = np.float16, np.float32, np.float64
OVFL = 1 << 23


def to_integer(low, high, rounding=math.trunc):
    def one(x):
        return 0 if math.isnan(x) else (low if x < 0 else high) if math.isinf(x) else min(max(rounding(x), low), high)

    dtype = {32: np.int32, 16: np.int16}[(high - low).bit_length()] if low else {32: np.uint32, 16: np.uint16}[high.bit_length()]
    return lambda x: np.array([one(float(v)) for v in x], dtype)


def to_float(kind):
    return lambda x: np.array([_narrow(float(v), kind) for v in x], exact.TYPES[kind])


def _narrow(x, kind):
    return exact.nearest(Fraction(x), kind, math.copysign(1, x)) if math.isfinite(x) else x


def from_integer(kind):
    return lambda x: np.array([exact.nearest(Fraction(int(v)), kind) for v in x], exact.TYPES[kind])


def cut_half(x):
    """float16 toward zero: a finite number never becomes infinite."""

    def one(v):
        if not math.isfinite(v):
            return v
        r = min(abs(_narrow(v, "f16")), 65504.0)
        if r > abs(v):
            r = float(np.nextafter(F16(r), F16(0)))
        return math.copysign(r, v)

    return np.array([one(float(v)) for v in x], F16)


def bf16_bits(x):
    """float32 as bfloat16 in the upper half of a word."""
    return (to_float("bf16")(x)).view(np.uint32)


def byte(n):
    return lambda x: (x >> np.uint32(8 * n) & np.uint32(255)).astype(F32)


ROWS = {
    "v_cvt_f32_i32": ("f32", "i32", from_integer("f32")),
    "v_cvt_f32_u32": ("f32", "u32", from_integer("f32")),
    "v_cvt_f64_i32": ("f64", "i32", from_integer("f64")),
    "v_cvt_f64_u32": ("f64", "u32", from_integer("f64")),
    "v_cvt_f16_i16": ("f16", "i16", from_integer("f16")),
    "v_cvt_f16_u16": ("f16", "u16", from_integer("f16")),
    "v_cvt_i32_f32": ("i32", "f32", to_integer(-(2**31), 2**31 - 1)),
    "v_cvt_u32_f32": ("u32", "f32", to_integer(0, 2**32 - 1)),
    "v_cvt_i32_f64": ("i32", "f64", to_integer(-(2**31), 2**31 - 1)),
    "v_cvt_u32_f64": ("u32", "f64", to_integer(0, 2**32 - 1)),
    "v_cvt_i16_f16": ("i16", "f16", to_integer(-(2**15), 2**15 - 1)),
    "v_cvt_u16_f16": ("u16", "f16", to_integer(0, 2**16 - 1)),
    "v_cvt_flr_i32_f32": ("i32", "f32", to_integer(-(2**31), 2**31 - 1, math.floor)),
    "v_cvt_rpi_i32_f32": ("i32", "f32", to_integer(-(2**31), 2**31 - 1, lambda x: math.floor(Fraction(x) + Fraction(1, 2)))),
    "v_cvt_f32_f16": ("f32", "f16", lambda x: x.astype(F64).astype(F32)),
    "v_cvt_f64_f32": ("f64", "f32", lambda x: x.astype(F64)),
    "v_cvt_f32_f64": ("f32", "f64", to_float("f32")),
    "v_cvt_f16_f32": ("f16", "f32", to_float("f16")),
    "v_cvt_f32_bf16": ("f32", "u32", lambda x: (x << np.uint32(16)).view(F32)),
    **{f"v_cvt_f32_ubyte{n}": ("f32", "u32", byte(n)) for n in range(4)},
    "v_cvt_pkrtz_f16_f32": ("2f16", "f32 f32", lambda x, y: glue(cut_half(x), cut_half(y))),
    "v_cvt_pk_f16_f32": ("2f16", "f32 f32", lambda x, y: glue(to_float("f16")(x), to_float("f16")(y))),
    "v_cvt_pk_bf16_f32": ("2bf16", "f32 f32", lambda x, y: bf16_bits(x) >> np.uint32(16) | bf16_bits(y) & np.uint32(0xFFFF0000)),
    "v_pack_b32_f16": ("2f16", "f16 f16", glue),
}
EXTRA = {
    "f32": [0.49999997, -0.5, 0.5, 1.5, -1.5, 2147483648.0, -2147483904.0, 4294967040.0, 65519.99, 65520.0, 2.0**-25, 1.5 * 2.0**-25, 3e-5],
    "f64": [
        0.49999997,
        -0.5,
        2147483647.5,
        4294967295.5,
        1 + 2.0**-24,
        1 + 3 * 2.0**-24,
        3.4028235677973366e38,
        2.0**-150,
        1.1 * 2.0**-150,
    ],
}


@pytest.mark.parametrize("mnemonic", ROWS)
def test_conversion(mnemonic):
    result, kinds, formula = ROWS[mnemonic]
    edges = {k: np.concatenate([v, np.array(EXTRA[k], v.dtype)]) if k in EXTRA else v for k, v in opcodes.EDGES.items()}
    sources = ", ".join("{" + n + "}" for n in "ab"[: len(kinds.split())])
    opcodes.check(f"{mnemonic} {{d}}, {sources}", result, kinds, formula, edges=edges)


def decoded(arch, name):
    """The 256 values of a format, from its bits: sign, exponent, fraction; None for NaN."""
    fraction = 3 if name == "fp8" else 2
    bias = (1 << (6 - fraction)) - (1 if arch == "gfx950" else 0)
    out = []
    for code in range(256):
        e, m = (code & 127) >> fraction, code & ((1 << fraction) - 1)
        value = math.ldexp(m, 1 - bias - fraction) if e == 0 else math.ldexp((1 << fraction) + m, e - bias - fraction)
        if arch == "gfx942":
            value = math.nan if code == 0x80 else value
        elif name == "fp8":
            value = math.nan if code & 127 == 127 else value
        elif e == 31:
            value = math.inf if m == 0 else math.nan
        out.append(-value if code & 128 else value)
    return np.array(out)


FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
CODES = np.arange(256, dtype=np.uint32)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("mnemonic", ["v_cvt_f32_fp8", "v_cvt_f32_bf8", "v_cvt_pk_f32_fp8", "v_cvt_pk_f32_bf8"])
def test_eight_bits_to_float(mnemonic, arch):
    values = decoded(arch, mnemonic[-3:]).astype(F32)
    source = CODES | (255 - CODES) << np.uint32(8) | np.uint32(0x5A000000)
    if "pk" in mnemonic:
        opcodes.check(
            f"{mnemonic} {{d}}, {{a}}", "2f32", "u32", lambda x: glue(values[x & 255], values[x >> 8 & 255]), arch=arch, values=[source]
        )
    else:
        opcodes.check(f"{mnemonic} {{d}}, {{a}}", "f32", "u32", lambda x: values[x & 255], arch=arch, values=[source])


def encode(x, arch, name, saturate):
    """Nearest code, ties to an even one, by search; out of range the largest or (NaN, or infinity where the format has it)."""
    values = decoded(arch, name)
    finite = np.flatnonzero(np.isfinite(values[:128]))
    top = float(values[finite].max())
    nan = 0x80 if arch == "gfx942" else 0x7F
    over = 0x80 if arch == "gfx942" else 0x7C if name == "bf8" else 0x7F
    if math.isnan(x):
        return nan
    sign = 0x80 if math.copysign(1, x) < 0 else 0
    step = Fraction(top) - Fraction(float(values[finite[-2]]))
    if math.isinf(x) or Fraction(abs(x)) >= Fraction(top) + step / 2:
        code = int(finite[-1]) if saturate else over
        return 0x80 if code == 0x80 else code | sign
    code = min(finite, key=lambda c: (abs(Fraction(float(values[c])) - Fraction(abs(x))), c & 1))
    return 0 if arch == "gfx942" and code == 0 else int(code) | sign


def fp8_inputs(arch, name):
    values = decoded(arch, name)[:128]
    values = values[np.isfinite(values)]
    between = (values[1:] + values[:-1]) / 2
    some = np.concatenate(
        [values[::5], between[::3], [values[-1] * 1.03, values[-1] * 1.0624, values[-1] * 1.3, 1e9, np.inf, np.nan, 1e-30]]
    )
    return np.concatenate([some, -some]).astype(F32)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("mnemonic", ["v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32"])
def test_float_to_eight_bits(mnemonic, saturate, arch):
    name = mnemonic[9:12]
    x = fp8_inputs(arch, name)

    def formula(a, b):
        codes = [[encode(float(v), arch, name, saturate) for v in c] for c in (a, b)]
        low = np.array(codes[0], np.uint32) | np.array(codes[1], np.uint32) << np.uint32(8)
        return low | opcodes.OLD & np.uint32(0xFFFF0000)

    mode = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\n" if saturate else ""
    text = mode + f"{mnemonic} {{d}}, {{a}}, {{b}}"
    keep = [x, np.roll(x, 7)]
    if arch == "gfx950":  # the sign of a NaN is not modelled
        keep = [np.where(np.isnan(v), np.abs(v), v) for v in keep]
    opcodes.check(text, "u32", "f32 f32", formula, arch=arch, values=keep)


SCALES = np.array([1.0, 0.25, 7.9, 2.0**-20, 2.0**20], F32)
UNPACK = [f"v_cvt_scalef32_pk_{w}_{s}" for s in ("fp8", "bf8", "fp4") for w in ("f32", "f16", "bf16")]
PACK = [f"v_cvt_scalef32_pk_{s}_{w}" for s in ("fp8", "bf8") for w in ("f32", "f16", "bf16")]


def scale_of(x):
    return np.exp2((x.view(np.uint32) >> np.uint32(23) & np.uint32(255)).astype(F64) - 127)


@pytest.mark.parametrize("mnemonic", UNPACK)
@pytest.mark.parametrize("part", [0, 1])
def test_scaled_to_float(mnemonic, part):
    wide, small = mnemonic.split("_")[4:]
    table = FP4 if small == "fp4" else decoded("gfx950", small)
    width = 4 if small == "fp4" else 8
    source = np.repeat(CODES | (CODES * 7 & 255) << np.uint32(8) | (CODES * 11 & 255) << np.uint32(16) | (255 - CODES) << np.uint32(24), 5)
    scales = np.resize(SCALES, source.shape)

    def formula(x, s):
        x = x >> np.uint32((8 if small == "fp4" else 16) * part)
        low, high = (table[x >> np.uint32(width * k) & np.uint32((1 << width) - 1)] * scale_of(s) for k in (0, 1))
        if wide == "f32":
            return glue(low.astype(F32), high.astype(F32))
        if wide == "f16":
            return glue(to_float("f16")(low), to_float("f16")(high))
        return bf16_bits(low) >> np.uint32(16) | bf16_bits(high) & np.uint32(0xFFFF0000)

    text = f"{mnemonic} {{d}}, {{a}}, {{b}}" + (" op_sel:[1,0,0]" if part else "")
    opcodes.check(text, f"2{wide}", "u32 f32", formula, values=[source, scales])


@pytest.mark.parametrize("mnemonic", PACK)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("saturate", [False, True])
def test_scaled_from_float(mnemonic, upper, saturate):
    small, wide = mnemonic.split("_")[4:]
    x = fp8_inputs("gfx950", small)
    x = np.where(np.isnan(x), np.abs(x), x)
    scales = np.resize(SCALES[:3], x.shape)
    with np.errstate(over="ignore"):
        cast = {"f32": lambda v: v, "f16": lambda v: v.astype(F16), "bf16": lambda v: (bf16_bits(v) & np.uint32(0xFFFF0000)).view(F32)}[
            wide
        ]
        a, b = cast(x), cast(np.roll(x, 9))

    def formula(*columns):
        first, second = (a, b)
        codes = []
        for v in (first, second):
            scaled = v.astype(F64) / scale_of(columns[-1])
            codes.append(np.array([encode(float(n), "gfx950", small, saturate) for n in scaled], np.uint32))
        pair = codes[0] | codes[1] << np.uint32(8)
        return pair << np.uint32(16) | opcodes.OLD & np.uint32(0xFFFF) if upper else pair | opcodes.OLD & np.uint32(0xFFFF0000)

    mode = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\n" if saturate else ""
    if wide == "f32":
        text, kinds, values = (
            f"{mnemonic} {{d}}, {{a}}, {{b}}, {{c}}" + (" op_sel:[0,0,0,1]" if upper else ""),
            "f32 f32 f32",
            [a, b, scales],
        )
    else:
        packed = glue(a, b) if wide == "f16" else a.view(np.uint32) >> np.uint32(16) | b.view(np.uint32)
        text, kinds, values = f"{mnemonic} {{d}}, {{a}}, {{b}}" + (" op_sel:[0,0,1]" if upper else ""), "u32 f32", [packed, scales]
    opcodes.check(mode + text, "u32", kinds, formula, values=values)


@pytest.mark.parametrize("mnemonic", ["v_cvt_f16_f32"])
def test_half_precision_overflow(mnemonic):
    """With FP16_OVFL, what is finite stays finite."""
    x = asm.f32(70000.0, -1e9, 65520.0, math.inf, 65519.0, 1.0)
    g = asm.run(f"{mnemonic}_e32 v2, v1", {1: x}, mode=0xF0 | OVFL)
    assert g.V[2, 0, :6].astype(np.uint16).view(F16).tolist() == [65504, -65504, 65504, math.inf, 65504, 1]
