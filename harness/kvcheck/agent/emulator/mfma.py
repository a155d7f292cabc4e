"""Matrix instructions: layouts of operands and results for every shape, element types, and rounding.

Layouts (one block): A and B are [rows, K] with row = lane % rows and K cut into `groups` of `per` consecutive elements, group = lane //
rows.
The result of 32 rows: row 8*(v/4) + 4*(lane/32) + v%4; of 16: 4*(lane/16) + v; column lane % columns.

The 8-bit operands of f8f6f4 are two runs of 16, half of K apart, 4-bit ones a run of 32; a lane's scale belongs to the 32 elements of its
group (AMD, "Matrix Core Programming on CDNA3 and CDNA4", the examples of mfma_scale_f32_32x32x64_f8f6f4).

Rounding: products are exact. gfx942 follows the CDNA3 model of mfma_cdna3.py bit by bit. How CDNA4 sums is not published: on gfx950
everything
is summed in float64 and rounded once, which is a stand-in.
"""

from __future__ import annotations

import re

import numpy as np

from . import fp8, mfma_cdna3
from .decoder import BUILDERS, Decoder, Step
from .operands import bits
from .state import Group

U32, F32, F64 = np.uint32, np.float32, np.float64
LANE = np.arange(64)
_NAME = re.compile(r"v_mfma_(scale_)?(f32|i32|f64)_(32x32|16x16|4x4)x(\d+)_?(\d+b)?_?(\w+)$")
REGISTERS = {"f16": 2, "bf16": 2, "fp8": 4, "bf8": 4, "i8": 4, "f32": 1, "xf32": 1}
"""Elements of K in one register."""
F8F6F4 = {0: "fp8", 1: "bf8", 4: "fp4"}


def rows_of(size: int, wide: bool) -> np.ndarray:
    """[register, lane] row of each result element."""
    if wide:
        return 4 * np.arange(4)[:, None] + LANE[None] // 16 if size == 16 else np.zeros((4, 64), int)
    v = np.arange(size * size // 64)[:, None]
    return 8 * (v // 4) + 4 * (LANE[None] // 32) + v % 4 if size == 32 else 4 * (LANE[None] // 16) + v


def elements(words: np.ndarray, kind: str, arch: str) -> np.ndarray:
    """[register, wave, lane] uint32 as [wave, lane, element] of values (float32, or int32 for i8)."""
    w = np.ascontiguousarray(words.transpose(1, 2, 0))
    if kind == "f32":
        return w.view(F32)
    if kind == "xf32":  # 10 fraction bits, cut: MMA-Sim, bit-identical with an MI300X, has truncation
        return np.where(np.isnan(w.view(F32)), w, w & U32(0xFFFFE000)).view(F32)
    if kind == "f16":
        return w.view(np.float16).astype(F32)
    if kind.startswith("bf16"):
        return (w.view(np.uint16).astype(U32) << U32(16)).view(F32)
    if kind == "i8":
        return w.view(np.int8).astype(np.int32)
    if kind == "fp4":
        b = w.view(np.uint8)
        return fp8.FP4[np.stack([b & 15, b >> 4], -1).reshape(*b.shape[:-1], -1)]
    return fp8.formats(arch)[kind].values[w.view(np.uint8)]


def matrix(e: np.ndarray, size: int, halves: bool = False) -> np.ndarray:
    """[wave, lane, element] as [wave, row, K]. With `halves` (8-bit operands of the widest instructions) a lane holds two runs of 16,
    half of K apart."""
    waves, _, per = e.shape
    groups = 64 // size
    if halves:
        return e.reshape(waves, groups, size, 2, per // 2).transpose(0, 2, 3, 1, 4).reshape(waves, size, groups * per)
    return e.reshape(waves, groups, size, per).transpose(0, 2, 1, 3).reshape(waves, size, groups * per)


def result_registers(d: Decoder, place: int, count: int):
    """A reader of the accumulator [register, wave, lane] as uint32 (a constant is the same everywhere)."""
    operand = d.operand(place)
    if operand.kind == "v":
        i = d.vector(place, count, write=False)
        return lambda g: g.V[i : i + count]
    if operand.kind != "c":
        raise d.ins.refuse(f"accumulator {d.ins.operands[place]!r}")
    constant = U32(bits(operand.value, "f32"))
    return lambda g: np.full((count, g.size, 64), constant)


def build(d: Decoder) -> Step:
    """Any v_mfma_*."""
    scaled, out, shape, k, blocks, types = _NAME.match(d.name).groups()
    size, depth = int(shape.split("x")[0]), int(k)
    if blocks or size == 4:
        raise d.ins.refuse("several blocks")
    for name in ("cbsz", "blgp") if types != "f8f6f4" else ():
        if d.modifier(name, "0") != "0":
            raise d.ins.refuse(name)
    if d.modifier("abid", "0") != "0":
        raise d.ins.refuse("abid")
    if out == "f64":
        return build_f64(d, size, depth)
    if types == "f8f6f4":
        left, right = (F8F6F4.get(int(d.modifier(m, "0"))) for m in ("cbsz", "blgp"))
        if left is None or right is None:
            raise d.ins.refuse("FP6")
    else:
        left, _, right = types.partition("_") if types[-3:] in ("fp8", "bf8") else (types, "", types)
    per = depth * size // 64
    counts = [max(1, per // (8 if t == "fp4" else REGISTERS.get(t, 4))) for t in (left, right)]
    ia, ib = d.vector(1, counts[0], write=False), d.vector(2, counts[1], write=False)
    n = size * size // 64
    c = result_registers(d, 3, n)
    i = d.vector(0, n)
    row, column = rows_of(size, False), np.broadcast_to(LANE % size, (n, 64))
    scales = scale_readers(d, size, per) if scaled else None
    arch = d.arch
    exact = arch == "gfx942" and out == "f32"

    def run(g: Group) -> None:
        a = matrix(elements(g.V[ia : ia + counts[0]], left, arch), size, types == "f8f6f4" and left != "fp4")
        b = matrix(elements(g.V[ib : ib + counts[1]], right, arch), size, types == "f8f6f4" and right != "fp4")
        start = c(g)
        if out == "i32":
            product = (a.astype(F64) @ b.astype(F64).transpose(0, 2, 1)).astype(np.int64)
            total = product[:, row, column].transpose(1, 0, 2) + start.view(np.int32)
            g.V[i : i + n] = total.astype(U32)
            return
        if exact:
            full = np.empty((g.size, size, size), F32)
            full[:, row, column] = start.view(F32).transpose(1, 0, 2)
            g.F[i : i + n] = mfma_cdna3.multiply(a, b, full, left, right)[:, row, column].transpose(1, 0, 2)
            return
        a, b = a.astype(F64), b.astype(F64)
        if scales:
            a, b = a * scales[0](g), b * scales[1](g)
        product = a @ b.transpose(0, 2, 1)
        g.F[i : i + n] = product[:, row, column].transpose(1, 0, 2) + start.view(F32)

    return run


def scale_readers(d: Decoder, size: int, per: int):
    """Readers of the E8M0 scales of A and B as [wave, row, K] factors: one scale for 32 elements, in a byte chosen by op_sel."""
    low = [int(t) for t in (d.modifier("op_sel") or "[0,0,0]").strip("[]").split(",")]
    high = [int(t) for t in (d.modifier("op_sel_hi") or "[0,0,0]").strip("[]").split(",")]
    out = []
    for n in (0, 1):
        raw, shift = d.raw(4 + n), U32(8 * (low[n] + 2 * high[n]))

        def read(g: Group, raw=raw, shift=shift) -> np.ndarray:
            byte = (np.broadcast_to(raw(g), (g.size, 64)) >> shift) & U32(255)
            return matrix(np.repeat(fp8.e8m0(byte)[..., None], per, -1), size)

        out.append(read)
    return out


def build_f64(d: Decoder, size: int, depth: int) -> Step:
    """v_mfma_f64_16x16x4_f64: a register pair an element."""
    if (size, depth) != (16, 4):
        raise d.ins.refuse("shape")
    ia, ib = d.vector(1, 2, write=False), d.vector(2, 2, write=False)
    operand = d.operand(3)
    ic = d.vector(3, 8, write=False) if operand.kind == "v" else None
    start = float(operand.value) if ic is None else 0.0
    i = d.vector(0, 8)
    row, column = rows_of(16, True), np.broadcast_to(LANE % 16, (4, 64))

    def doubles(g: Group, at: int, count: int) -> np.ndarray:
        return np.ascontiguousarray(g.V[at : at + 2 * count].transpose(1, 2, 0)).view(F64)

    def run(g: Group) -> None:
        a, b = (matrix(doubles(g, at, 1), 16) for at in (ia, ib))
        full = np.full((g.size, 16, 16), start)
        if ic is not None:
            full[:, row, column] = doubles(g, ic, 4).transpose(0, 2, 1)
        total = mfma_cdna3.multiply_f64(a, b, full)[:, row, column].transpose(0, 2, 1)
        g.V[i : i + 8] = np.ascontiguousarray(total).view(U32).transpose(2, 0, 1)

    return run


for _out, _shapes in {
    "f32": [
        f"{s}_{t}"
        for s, ts in {
            "32x32x8": ("f16", "bf16"),
            "16x16x16": ("f16", "bf16"),
            "32x32x16": ("f16", "bf16", "fp8_fp8", "fp8_bf8", "bf8_fp8", "bf8_bf8"),
            "16x16x32": ("f16", "bf16", "fp8_fp8", "fp8_bf8", "bf8_fp8", "bf8_bf8"),
            "32x32x2": ("f32",),
            "16x16x4": ("f32",),
            "32x32x4": ("xf32",),
            "16x16x8": ("xf32",),
            "32x32x64": ("f8f6f4",),
            "16x16x128": ("f8f6f4",),
        }.items()
        for t in ts
    ],
    "i32": ["32x32x16_i8", "16x16x32_i8", "32x32x32_i8", "16x16x64_i8"],
    "f64": ["16x16x4_f64"],
    "scale_f32": ["32x32x64_f8f6f4", "16x16x128_f8f6f4"],
}.items():
    for _shape in _shapes:
        _key = f"v_mfma_{_out}_{_shape}" if _out != "scale_f32" else f"v_mfma_scale_f32_{_shape}"
        BUILDERS[_key] = build
