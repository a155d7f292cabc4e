"""gfx950's v_cvt_scalef32_pk_*: conversions of FP8 and FP4 pairs with an E8M0 scale taken from the exponent of a float32."""

from __future__ import annotations

import re

import numpy as np

from . import fp8
from .convert import FP16_OVFL, half_bits, to_bf16
from .decoder import BUILDERS, Decoder, Step
from .state import Group
from .vector import store

U32, F32, F64 = np.uint32, np.float32, np.float64


def exponent_scale(x: np.ndarray) -> np.ndarray:
    """The power of two in the exponent field of a float32, as float64."""
    return fp8.e8m0((np.asarray(x).view(U32) >> U32(23)) & U32(255))


def selected(d: Decoder) -> list[int]:
    """The op_sel bits, padded with zeros."""
    return [int(t) for t in (d.modifier("op_sel") or "[0,0,0,0]").strip("[]").split(",")] + [0, 0]


def unpack(d: Decoder) -> Step:
    """FP8 or FP4 pair -> two floats times the scale."""
    wide, small = re.match(r"v_cvt_scalef32_pk_(f32|f16|bf16)_(fp8|bf8|fp4)$", d.name).groups()
    raw, scale = d.raw(1), d.source(2, "f32")
    chosen = selected(d)
    shift = U32(8 * (chosen[0] + 2 * chosen[1]) if small == "fp4" else 16 * chosen[0])
    values, width = (fp8.FP4, 4) if small == "fp4" else (fp8.OCP[small].values, 8)
    low = U32((1 << width) - 1)
    index = d.vector(0, 2 if wide == "f32" else 1)

    def run(g: Group) -> None:
        x = np.broadcast_to(raw(g), (g.size, 64)) >> shift
        factor = exponent_scale(scale(g))
        pair = [(values[(x >> U32(n * width)) & low].astype(F64) * factor).astype(F32) for n in (0, 1)]
        if wide == "f32":
            store(g, index, pair[0].view(U32))
            store(g, index + 1, pair[1].view(U32))
        else:
            pack = half_bits if wide == "f16" else to_bf16
            store(g, index, pack(pair[0]) | (pack(pair[1]) << U32(16)))

    return run


def pack(d: Decoder) -> Step:
    """Two floats divided by the scale -> an FP8 pair in one half of the destination. Saturates with FP16_OVFL."""
    small, wide = re.match(r"v_cvt_scalef32_pk_(fp8|bf8)_(f32|f16|bf16)$", d.name).groups()
    fmt = fp8.OCP[small]
    chosen = selected(d)
    if wide == "f32":
        a, b, scale = d.source(1, "f32"), d.source(2, "f32"), d.source(3, "f32")
        high = chosen[3]
    else:
        raw, scale = d.raw(1), d.source(2, "f32")
        high = chosen[2] or chosen[3]
        if wide == "f16":
            a = lambda g: (raw(g) & U32(0xFFFF)).astype(np.uint16).view(np.float16).astype(F32)  # noqa: E731
            b = lambda g: (raw(g) >> U32(16)).astype(np.uint16).view(np.float16).astype(F32)  # noqa: E731
        else:
            a = lambda g: (raw(g) << U32(16)).view(F32)  # noqa: E731
            b = lambda g: (raw(g) & U32(0xFFFF0000)).view(F32)  # noqa: E731
    index = d.vector(0, 1)
    d.note_read(d.operand(0), 1)
    shift, keep = U32(16 if high else 0), U32(0x0000FFFF if high else 0xFFFF0000)

    def run(g: Group) -> None:
        factor = exponent_scale(scale(g))
        saturate = bool(g.mode & FP16_OVFL)
        first, second = (fmt.encode((np.asarray(v(g)).astype(F64) / factor).astype(F32), saturate) for v in (a, b))
        store(g, index, (g.V[index] & keep) | ((first | (second << U32(8))) << shift))

    return run


for _small in ("fp8", "bf8", "fp4"):
    for _wide in ("f32", "f16", "bf16"):
        BUILDERS[f"v_cvt_scalef32_pk_{_wide}_{_small}"] = unpack
        if _small != "fp4":
            BUILDERS[f"v_cvt_scalef32_pk_{_small}_{_wide}"] = pack
