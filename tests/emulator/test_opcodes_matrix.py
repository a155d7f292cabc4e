"""Every matrix instruction: layouts as AMD publishes them, lane by lane, on exact operands; CDNA3's rounding in rational numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from . import asm, exact, opcodes
from .test_opcodes_convert import FP4, decoded

SHAPES = {  # type -> (rows, K) of gfx942 and of gfx950 alone
    "f16": ([(32, 8), (16, 16)], [(32, 16), (16, 32)]),
    "bf16": ([(32, 8), (16, 16)], [(32, 16), (16, 32)]),
    "f32": ([(32, 2), (16, 4)], []),
    "xf32": ([(32, 4), (16, 8)], None),
    **{f"{a}_{b}": ([(32, 16), (16, 32)], []) for a in ("fp8", "bf8") for b in ("fp8", "bf8")},
}
TABLE = {}
for _kind, (_both, _new) in SHAPES.items():
    for _rows, _k in _both:
        TABLE[f"v_mfma_f32_{_rows}x{_rows}x{_k}_{_kind}"] = (_rows, _k, _kind, ("gfx942",) if _new is None else ("gfx942", "gfx950"))
    for _rows, _k in _new or []:
        TABLE[f"v_mfma_f32_{_rows}x{_rows}x{_k}_{_kind}"] = (_rows, _k, _kind, ("gfx950",))
CASES = [(name, arch) for name, row in TABLE.items() for arch in row[3]]
INT8 = {
    "v_mfma_i32_32x32x16_i8": (32, 16),
    "v_mfma_i32_16x16x32_i8": (16, 32),
    "v_mfma_i32_32x32x32_i8": (32, 32),
    "v_mfma_i32_16x16x64_i8": (16, 64),
}
LANE = np.arange(64)


def encoded(values, kind, arch):
    """Elements [lane, per] as registers [n, 64]."""
    if kind == "f16":
        raw = values.astype(np.float16).view(np.uint16)
    elif kind == "bf16":
        raw = (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    elif kind in ("f32", "xf32"):
        raw = values.astype(np.float32).view(np.uint32)
    elif kind == "i8":
        raw = values.astype(np.int8).view(np.uint8)
    else:
        table = FP4 if kind == "fp4" else decoded(arch, kind)
        raw = np.vectorize({float(v): i for i, v in reversed(list(enumerate(table))) if v == v}.get)(values.astype(float)).astype(np.uint8)
        if kind == "fp4":
            raw = raw[:, 0::2] | raw[:, 1::2] << 4
    return np.ascontiguousarray(raw).view(np.uint32).reshape(64, -1).T.astype(np.uint32)


def gather(values, rows, halves=False):
    """[lane, per] as the matrix [row, K]: K is cut into a run for each group of lanes, or into two runs half of K apart."""
    per, groups = values.shape[1], 64 // rows
    out = np.zeros((rows, per * groups))
    for lane in range(64):
        row, group = lane % rows, lane // rows
        for j in range(per):
            k = group * per + j if not halves else group * (per // 2) + j % (per // 2) + (per * groups // 2 if j >= per // 2 else 0)
            out[row, k] = values[lane, j]
    return out


def spread(result, rows):
    """[row, column] as registers [n, lane]."""
    n = rows * rows // 64
    v, lane = np.arange(n)[:, None], LANE[None]
    row = 8 * (v // 4) + 4 * (lane // 32) + v % 4 if rows == 32 else 4 * (lane // 16) + v
    return result[row, np.broadcast_to(lane % rows, row.shape)]


def regs(i, n, letter="v"):
    return f"{letter}{i}" if n == 1 else f"{letter}[{i}:{i + n - 1}]"


def multiply(mnemonic, a, b, c, kinds, arch, extra="", more=None):
    """Runs D = A * B + C with D and C in accumulators, and returns D's registers as float32."""
    left, right = (encoded(v, k, arch) for v, k in zip((a, b), kinds, strict=True))
    n = len(c)
    line = f"{mnemonic} {regs(0, n, 'a')}, {regs(10, len(left))}, {regs(20, len(right))}, {regs(0, n, 'a')}{extra}"
    opcodes.assemble(line, arch)
    vectors = (
        {10 + i: w for i, w in enumerate(left)}
        | {20 + i: w for i, w in enumerate(right)}
        | {256 + i: w for i, w in enumerate(c)}
        | (more or {})
    )
    return asm.run(line, vectors, arch=arch, execute=opcodes.SOME).V[256 : 256 + n, 0]  # EXEC does not matter to a matrix instruction


@pytest.mark.parametrize(("mnemonic", "arch"), CASES)
def test_layout(mnemonic, arch):
    rows, k, kind, _ = TABLE[mnemonic]
    kinds = kind.split("_") if "_" in kind else [kind, kind]
    rng = np.random.default_rng(k)
    a, b = rng.choice([0.0, 1.0, -2.0, 0.5, 3.0, -1.5], (2, 64, k * rows // 64))
    c = rng.integers(-5, 6, (rows * rows // 64, 64)).astype(np.float32)
    want = spread(gather(a, rows) @ gather(b, rows).T, rows) + c
    assert (multiply(mnemonic, a, b, c.view(np.uint32), kinds, arch).view(np.float32) == want).all()


@pytest.mark.parametrize("mnemonic", INT8)
def test_integer_product(mnemonic):
    rows, k = INT8[mnemonic]
    rng = np.random.default_rng(k)
    a, b = rng.integers(-128, 128, (2, 64, k * rows // 64))
    c = rng.integers(-(2**31), 2**31, (rows * rows // 64, 64))
    want = (spread(gather(a, rows) @ gather(b, rows).T, rows).astype(np.int64) + c) & 0xFFFFFFFF
    arch = "gfx950" if k * rows > 512 else "gfx942"
    assert (multiply(mnemonic, a, b, (c & 0xFFFFFFFF).astype(np.uint32), ["i8", "i8"], arch) == want).all()


@pytest.mark.parametrize("mnemonic", ["v_mfma_f64_16x16x4_f64"])
def test_double_product(mnemonic):
    """Rows 4 * register + lane / 16; a chain of fused multiply-adds along K."""
    rng = np.random.default_rng(6)
    a, b, c = rng.standard_normal((3, 4, 64))
    (al, ah), (bl, bh) = asm.f64(*a[0]), asm.f64(*b[0])
    vectors = {0: al, 1: ah, 2: bl, 3: bh}
    for v in range(4):
        vectors[8 + 2 * v], vectors[9 + 2 * v] = asm.f64(*c[v])
    line = f"{mnemonic} v[8:15], v[0:1], v[2:3], v[8:15]"
    opcodes.assemble(line, "gfx942")
    g = asm.run(line, vectors)
    for lane in range(64):
        for v in range(4):
            row, column, total = 4 * v + lane // 16, lane % 16, float(c[v, lane])
            for k in range(4):
                total = exact.fma(float(a[0, row + 16 * k]), float(b[0, column + 16 * k]), total, "f64")
            assert opcodes.read(g, 8 + 2 * v, "f64")[0, lane] == total


FORMATS = {"fp8": 0, "bf8": 1, "fp4": 4}


@pytest.mark.parametrize(
    "mnemonic",
    ["v_mfma_f32_32x32x64_f8f6f4", "v_mfma_f32_16x16x128_f8f6f4", "v_mfma_scale_f32_32x32x64_f8f6f4", "v_mfma_scale_f32_16x16x128_f8f6f4"],
)
@pytest.mark.parametrize("kinds", [("fp8", "fp8"), ("fp8", "bf8"), ("fp4", "fp4"), ("bf8", "fp4")], ids="-".join)
@pytest.mark.parametrize("byte", [0, 2])
def test_widest_product(mnemonic, kinds, byte):
    rows = 32 if "32x32" in mnemonic else 16
    rng = np.random.default_rng(rows)
    a, b = rng.choice([0.0, 1.0, -2.0, 0.5, 3.0, -1.5], (2, 64, 32))
    c = rng.integers(-5, 6, (rows * rows // 64, 64)).astype(np.float32)
    matrices = [gather(v, rows, k != "fp4") for v, k in zip((a, b), kinds, strict=True)]
    extra, more = "", {}
    if "scale" in mnemonic:
        codes = rng.integers(122, 133, (2, 64))
        factors = [np.repeat(gather(np.exp2(s - 127.0)[:, None], rows), 32, 1) for s in codes]
        matrices = [m * f for m, f in zip(matrices, factors, strict=True)]
        more = {40: (codes[0] << 8 * byte).astype(np.uint32) | 0x01, 41: (codes[1] << 8 * byte).astype(np.uint32)}
        more = more if byte else {40: codes[0].astype(np.uint32) | 0x55000000, 41: codes[1].astype(np.uint32)}
        extra = ", v40, v41 op_sel:[0,0,0] op_sel_hi:[1,1,0]" if byte else ", v40, v41 op_sel_hi:[0,0,0]"
    extra += "".join(f" {name}:{FORMATS[k]}" for name, k in zip(("cbsz", "blgp"), kinds, strict=True) if FORMATS[k])
    want = (spread(matrices[0] @ matrices[1].T, rows) + c).astype(np.float32)  # summed exactly and rounded once, see mfma.py
    assert (multiply(mnemonic, a, b, c.view(np.uint32), kinds, "gfx950", extra, more).view(np.float32) == want).all()


LOWEST = {"f16": -14, "bf16": -126, "xf32": -126}


def exponent(x, low):
    return -126 if x == 0 else max(math.frexp(x)[1] - 1, low)


def floor_at(x, e):
    return Fraction(math.floor(x / Fraction(2) ** e)) * Fraction(2) ** e


def cdna3(a, b, c, kind):
    """One result: groups of 8 (xf32: 4), products cut at 24 bits below the largest exponent, sum and C rounded down, then to nearest."""
    step = 4 if kind == "xf32" else 8
    for k in range(0, len(a), step):
        pairs = [(float(x), float(y)) for x, y in zip(a[k : k + step], b[k : k + step], strict=True)]
        if any(abs(x * y) >= 2.0**128 for x, y in pairs):
            signs = {math.copysign(1, x * y) for x, y in pairs if abs(x * y) >= 2.0**128}
            return math.nan if len(signs) == 2 else signs.pop() * math.inf
        top = max(exponent(x, LOWEST[kind]) + exponent(y, LOWEST[kind]) for x, y in pairs)
        unit = Fraction(2) ** (top - 24)
        total = sum(math.trunc(Fraction(x) * Fraction(y) / unit) for x, y in pairs) * unit
        high = max(top, exponent(c, -126))
        total = floor_at(total, high - 31) + floor_at(Fraction(c), high - 24)
        c = exact.nearest(total, "f32")
        if math.isinf(c):
            return c
    return c


@pytest.mark.parametrize("mnemonic", [n for n, row in TABLE.items() if row[2] in LOWEST and "gfx942" in row[3]])
def test_cdna3_rounding(mnemonic):
    rows, k, kind, _ = TABLE[mnemonic]
    rng = np.random.default_rng(9)
    wide = 40 if kind != "f16" else 4
    a, b = rng.standard_normal((2, 64, k * rows // 64)) * 2.0 ** rng.integers(-wide, wide, (2, 64, k * rows // 64))
    a[rng.random(a.shape) < 0.2] = 0
    cut = {
        "f16": lambda v: v.astype(np.float16),
        "bf16": lambda v: (v.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32),
    }
    a, b = (cut[kind](v).astype(float) if kind in cut else v.astype(np.float32).astype(float) for v in (a, b))
    if kind == "bf16":
        a[0, 0], b[1, 0] = 2.0**100, -(2.0**100)
    c = (rng.standard_normal((rows * rows // 64, 64)) * 10.0 ** rng.integers(-9, 9, (rows * rows // 64, 64))).astype(np.float32)
    got = multiply(mnemonic, a, b, c.view(np.uint32), [kind, kind], "gfx942").view(np.float32)
    seen = [v.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000) for v in (a, b)]
    left, right = (gather(v.view(np.float32).astype(float) if kind == "xf32" else w, rows) for v, w in zip(seen, (a, b), strict=True))
    n = rows * rows // 64
    for lane in range(0, 64, 3):
        for v in range(n):
            row = 8 * (v // 4) + 4 * (lane // 32) + v % 4 if rows == 32 else 4 * (lane // 16) + v
            want = np.float32(cdna3(left[row], right[lane % rows], float(c[v, lane]), kind))
            assert got[v, lane] == want or (np.isnan(want) and np.isnan(got[v, lane])), (lane, v)


@pytest.mark.parametrize("mnemonic", ["v_mfma_f32_32x32x4_xf32"])
def test_xf32_operands_are_cut_not_rounded(mnemonic):
    """The nearest 10-bit value of 1 + 3 * 2^-12 is above it; the card multiplies the one below (MMA-Sim, measured on an MI300X)."""
    a, b = np.full((64, 2), 1 + 3 * 2.0**-12), np.zeros((64, 2))
    b[:32, 0] = 1.0
    got = multiply(mnemonic, a, b, np.zeros((16, 64), np.uint32), ["xf32", "xf32"], "gfx942").view(np.float32)
    assert (got == 1.0).all()
