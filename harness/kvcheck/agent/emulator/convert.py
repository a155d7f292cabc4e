"""Conversions between number formats, packing included."""

from __future__ import annotations

import numpy as np

from . import fp8
from .decoder import Decoder, Step, op
from .state import Group
from .vector import destination, select, sources, store, table

U32, F16, F32, F64, I32 = np.uint32, np.float16, np.float32, np.float64, np.int32
FP16_OVFL = 1 << 23


def to_int(low: int, high: int, dtype):
    """Truncation with saturation; NaN becomes 0."""

    def run(x):
        t = np.trunc(np.asarray(x).astype(F64))
        return np.where(np.isnan(t), 0, np.clip(t, low, high)).astype(np.int64).astype(dtype)

    return run


def to_bf16(x: np.ndarray) -> np.ndarray:
    """float32 to bfloat16 bits (uint32), nearest even, NaN kept quiet."""
    bits = np.ascontiguousarray(x, F32).view(U32)
    rounded = (bits + U32(0x7FFF) + ((bits >> U32(16)) & U32(1))) >> U32(16)
    return np.where(np.isnan(x), (bits >> U32(16)) | U32(0x40), rounded)


def half_bits(x: np.ndarray) -> np.ndarray:
    """Values as float16 bits in uint32, nearest even."""
    return np.asarray(x).astype(F16).view(np.uint16).astype(U32)


def toward_zero(x: np.ndarray) -> np.ndarray:
    """float32 to float16 truncated, as v_cvt_pkrtz does."""
    r = np.asarray(x).astype(F16)
    over = np.abs(r.astype(F32)) > np.abs(x)
    return np.where(over, np.nextafter(r, F16(0)), r).astype(F16)


def ubyte(n):
    """Conversion of the n'th byte to float32."""
    return lambda x: ((x >> U32(8 * n)) & U32(255)).astype(F32)


table(
    {
        "v_cvt_f32_i32": ("f32", "i32", lambda x: x.astype(F32)),
        "v_cvt_f32_u32": ("f32", "u32", lambda x: x.astype(F32)),
        "v_cvt_i32_f32": ("i32", "f32", to_int(-(2**31), 2**31 - 1, I32)),
        "v_cvt_u32_f32": ("u32", "f32", to_int(0, 2**32 - 1, U32)),
        "v_cvt_flr_i32_f32": ("i32", "f32", lambda x: to_int(-(2**31), 2**31 - 1, I32)(np.floor(x))),
        "v_cvt_rpi_i32_f32": ("i32", "f32", lambda x: to_int(-(2**31), 2**31 - 1, I32)(np.floor(x.astype(F64) + 0.5))),
        "v_cvt_f32_f16": ("f32", "f16", lambda x: x.astype(F32)),
        "v_cvt_f64_f32": ("f64", "f32", lambda x: np.asarray(x).astype(F64)),
        "v_cvt_f32_f64": ("f32", "f64", lambda x: x.astype(F32)),
        "v_cvt_f64_i32": ("f64", "i32", lambda x: np.asarray(x).astype(F64)),
        "v_cvt_f64_u32": ("f64", "u32", lambda x: np.asarray(x).astype(F64)),
        "v_cvt_i32_f64": ("i32", "f64", to_int(-(2**31), 2**31 - 1, I32)),
        "v_cvt_u32_f64": ("u32", "f64", to_int(0, 2**32 - 1, U32)),
        "v_cvt_f16_i16": ("f16", "i16", lambda x: x.astype(F16)),
        "v_cvt_f16_u16": ("f16", "u16", lambda x: x.astype(F16)),
        "v_cvt_i16_f16": ("i16", "f16", to_int(-32768, 32767, np.int16)),
        "v_cvt_u16_f16": ("u16", "f16", to_int(0, 65535, np.uint16)),
        "v_cvt_f32_ubyte0": ("f32", "u32", ubyte(0)),
        "v_cvt_f32_ubyte1": ("f32", "u32", ubyte(1)),
        "v_cvt_f32_ubyte2": ("f32", "u32", ubyte(2)),
        "v_cvt_f32_ubyte3": ("f32", "u32", ubyte(3)),
        "v_cvt_f32_bf16": ("f32", "bf16", lambda x: x),
        "v_cvt_pkrtz_f16_f32": ("u32", "f32 f32", lambda x, y: half_bits(toward_zero(x)) | (half_bits(toward_zero(y)) << U32(16))),
        "v_cvt_pk_f16_f32": ("u32", "f32 f32", lambda x, y: half_bits(x) | (half_bits(y) << U32(16))),
        "v_cvt_pk_bf16_f32": ("u32", "f32 f32", lambda x, y: to_bf16(x) | (to_bf16(y) << U32(16))),
        "v_pack_b32_f16": ("u32", "u16 u16", lambda x, y: x.astype(U32) | (y.astype(U32) << U32(16))),
        "v_cvt_pk_u16_u32": ("u32", "u32 u32", lambda x, y: np.minimum(x, U32(0xFFFF)) | (np.minimum(y, U32(0xFFFF)) << U32(16))),
        "v_cvt_pk_i16_i32": (
            "u32",
            "i32 i32",
            lambda x, y: (np.clip(x, -32768, 32767).view(U32) & U32(0xFFFF)) | (np.clip(y, -32768, 32767).view(U32) << U32(16)),
        ),
    }
)


@op("v_cvt_f16_f32")
def f16_f32(d: Decoder) -> Step:
    """With FP16_OVFL set in MODE, a finite number too large becomes 65504 instead of infinity."""
    (a,), lanes = sources(d, ["f32"], [1])
    put = destination(d, "f16", lanes)

    def run(g: Group) -> None:
        x = np.asarray(a(g))
        r = x.astype(F16)
        if g.mode & FP16_OVFL:
            r = np.where(np.isinf(r) & np.isfinite(x), np.copysign(F16(65504), r), r)
        put(g, r)

    return run


def byte_format(d: Decoder, name: str) -> fp8.Format:
    """The target's 8-bit format of that name."""
    return fp8.formats(d.arch)[name]


@op("v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32")
def pack_fp8(d: Decoder) -> Step:
    """Two floats to two bytes in one half of the destination; the other half is kept. Saturates with FP16_OVFL."""
    fmt = byte_format(d, d.name[9:12])
    chosen = (d.modifier("op_sel") or "[0,0,0]").strip("[]").split(",")
    a, b = d.source(1, "f32"), d.source(2, "f32")
    index = d.vector(0, 1)
    d.note_read(d.operand(0), 1)
    shift = U32(16 if chosen[-1] == "1" else 0)
    keep = U32(0x0000FFFF if chosen[-1] == "1" else 0xFFFF0000)

    def run(g: Group) -> None:
        saturate = bool(g.mode & FP16_OVFL)
        pair = fmt.encode(a(g), saturate) | (fmt.encode(b(g), saturate) << U32(8))
        store(g, index, (g.V[index] & keep) | (pair << shift))

    return run


@op("v_cvt_f32_fp8", "v_cvt_f32_bf8")
def unpack_one(d: Decoder) -> Step:
    """One FP8 byte to float32."""
    values = byte_format(d, d.name[-3:]).values
    raw = d.raw(1)
    if d.encoding == "sdwa":
        raw = select(raw, d.modifier("src0_sel", "DWORD"), False)
    else:
        raw = select(raw, f"BYTE_{int(d.modifier('byte_sel', '0'))}", False)
    put = destination(d, "f32")
    return lambda g: put(g, values[raw(g) & U32(255)])


@op("v_cvt_pk_f32_fp8", "v_cvt_pk_f32_bf8")
def unpack_two(d: Decoder) -> Step:
    """Two FP8 bytes to a register pair."""
    values = byte_format(d, d.name[-3:]).values
    raw = d.raw(1)
    if d.encoding == "sdwa":
        raw = select(raw, d.modifier("src0_sel", "WORD_0"), False)
    elif (d.modifier("op_sel") or "[0,0]").strip("[]").split(",")[0] == "1":
        raw = select(raw, "WORD_1", False)
    index = d.vector(0, 2)

    def run(g: Group) -> None:
        x = np.broadcast_to(raw(g), (g.size, 64))
        first, second = values[x & U32(255)].view(U32), values[(x >> U32(8)) & U32(255)].view(U32)
        store(g, index, first)
        store(g, index + 1, second)

    return run
