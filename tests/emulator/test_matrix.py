"""Matrix instructions: layouts against the definition written out lane by lane, element types, and the CDNA3 rounding model."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from kvcheck.agent.emulator import mfma_cdna3

from . import asm

TORCH = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "xf32": torch.float32}


def fp8(arch, name):
    fnuz = arch == "gfx942"
    return {"fp8": torch.float8_e4m3fnuz if fnuz else torch.float8_e4m3fn, "bf8": torch.float8_e5m2fnuz if fnuz else torch.float8_e5m2}[
        name
    ]


def pack(values, dtype):
    """[lane, element] values as registers [n, 64] uint32, and the values after rounding to the type."""
    t = torch.from_numpy(values).to(dtype)
    raw = t.contiguous().view(torch.uint8).numpy().reshape(64, -1)
    return raw.view(np.uint32).T.copy(), t.double().numpy()


SHAPES = [
    ("gfx942", 32, 8, "f16"),
    ("gfx942", 16, 16, "f16"),
    ("gfx942", 32, 8, "bf16"),
    ("gfx942", 16, 16, "bf16"),
    ("gfx942", 32, 2, "f32"),
    ("gfx942", 16, 4, "f32"),
    ("gfx942", 32, 4, "xf32"),
    ("gfx942", 16, 8, "xf32"),
    ("gfx942", 32, 16, "fp8_fp8"),
    ("gfx942", 16, 32, "fp8_bf8"),
    ("gfx942", 32, 16, "bf8_fp8"),
    ("gfx942", 16, 32, "bf8_bf8"),
    ("gfx950", 32, 16, "f16"),
    ("gfx950", 16, 32, "bf16"),
    ("gfx950", 16, 32, "fp8_fp8"),
    ("gfx950", 32, 16, "bf8_bf8"),
    ("gfx950", 32, 8, "bf16"),
    ("gfx950", 16, 16, "f16"),
]


@pytest.mark.parametrize(("arch", "size", "depth", "kind"), SHAPES)
def test_layout_lane_by_lane(arch, size, depth, kind):
    left, _, right = kind.partition("_")
    right = right or left
    rng = np.random.default_rng(size + depth)
    per = depth * size // 64
    (a, av), (b, bv) = (pack(rng.integers(-3, 4, (64, per)).astype(np.float32), TORCH.get(t) or fp8(arch, t)) for t in (left, right))
    n = size * size // 64
    c = rng.integers(-5, 6, (n, 64)).astype(np.float32)
    vectors = dict(enumerate(a)) | {20 + i: row for i, row in enumerate(b)} | {256 + i: row.view(np.uint32) for i, row in enumerate(c)}
    regs = lambda base, k: f"v{base}" if k == 1 else f"v[{base}:{base + k - 1}]"  # noqa: E731
    name = f"v_mfma_f32_{size}x{size}x{depth}_{kind}"
    g = asm.run(f"{name} a[0:{n - 1}], {regs(0, len(a))}, {regs(20, len(b))}, a[0:{n - 1}]", vectors, arch=arch)
    for lane in range(64):
        for v in range(n):
            row = 8 * (v // 4) + 4 * (lane // 32) + v % 4 if size == 32 else 4 * (lane // 16) + v
            column = lane % size
            total = sum(av[row + size * group, k] * bv[column + size * group, k] for group in range(64 // size) for k in range(per))
            assert float(g.F[256 + v, 0, lane]) == total + c[v, lane], (lane, v)


def test_integer_and_double_products():
    rng = np.random.default_rng(5)
    a, b = rng.integers(-128, 128, (2, 64, 8)).astype(np.int8)
    words = [x.view(np.uint32).T.copy() for x in (a, b)]
    g = asm.run("v_mfma_i32_32x32x16_i8 v[32:47], v[0:1], v[4:5], 0", {0: words[0][0], 1: words[0][1], 4: words[1][0], 5: words[1][1]})
    for lane in (0, 17, 40, 63):
        for v in range(16):
            row, column = 8 * (v // 4) + 4 * (lane // 32) + v % 4, lane % 32
            assert int(g.I[32 + v, 0, lane]) == sum(int(a[row + 32 * h, k]) * int(b[column + 32 * h, k]) for h in (0, 1) for k in range(8))
    x, y = rng.standard_normal((2, 64))
    (xl, xh), (yl, yh) = asm.f64(*x), asm.f64(*y)
    g = asm.run("v_mfma_f64_16x16x4_f64 v[8:15], v[0:1], v[2:3], 1.0", {0: xl, 1: xh, 2: yl, 3: yh})
    for lane in (0, 21, 63):
        for v in range(4):
            row, column = 4 * v + lane // 16, lane % 16
            got = (int(g.V[9 + 2 * v, 0, lane]) << 32 | int(g.V[8 + 2 * v, 0, lane])).to_bytes(8, "little")
            want = 1.0 + sum(x[row + 16 * k] * y[column + 16 * k] for k in range(4))
            assert np.frombuffer(got, np.float64)[0] == pytest.approx(want, rel=1e-14)


def test_nan_and_infinity_pass_through():
    for kind, nan, one in (("fp8_fp8", 0x80, 0x40), ("f16", 0x7E00, 0x3C00)):
        width = 8 if kind == "fp8_fp8" else 16
        ones = sum(one << width * k for k in range(32 // width))
        first = (ones & ~((1 << width) - 1)) | nan
        name = "v_mfma_f32_32x32x16_fp8_fp8" if width == 8 else "v_mfma_f32_32x32x8_f16"
        v0 = np.where(np.arange(64) == 3, first, ones).astype(np.uint32)
        g = asm.run(f"{name} v[32:47], v[0:1], v[2:3], 0", {0: v0, 1: ones, 2: ones, 3: ones}).F[32:48, 0]
        assert np.isnan(g[3, :32]).all()
        assert np.isfinite(g[[0, 1, 2, 4]]).all()


def trunc_units(x: Fraction, unit: Fraction) -> int:
    q = abs(x) / unit
    return int(q) * (1 if x >= 0 else -1)


def floor_units(x: Fraction, unit: Fraction) -> int:
    return (x / unit).__floor__()


def cdna3_by_fractions(a, b, c, lowest):
    """The model for one group of 16 in exact rationals: written apart from the code under test."""

    def exponent(v, low):
        return max(np.frexp(v)[1] - 1, low)

    def half(first):
        pairs = [(x, y) for x, y in zip(a[first::2], b[first::2], strict=False) if x and y]
        top = max((exponent(x, lowest) + exponent(y, lowest) for x, y in pairs), default=-126)
        unit = Fraction(2) ** int(top - 24)
        return sum(trunc_units(Fraction(float(x)) * Fraction(float(y)), unit) for x, y in pairs) * unit, top

    (s0, t0), (s1, t1) = half(0), half(1)
    top = max(t0, t1)
    unit = Fraction(2) ** int(top - 24)
    total = (floor_units(s0, unit) + floor_units(s1, unit)) * unit
    ec = exponent(c, -126) if c else -126
    high = int(max(top, ec))
    merged = floor_units(total, Fraction(2) ** (high - 31)) * Fraction(2) ** (high - 31)
    kept = floor_units(Fraction(float(c)), Fraction(2) ** (high - 24)) * Fraction(2) ** (high - 24) if ec >= high - 25 else Fraction(0)
    return np.float32(float(merged + kept))  # at most 45 bits: exact in float64, so rounded once


@pytest.mark.parametrize(("kind", "dtype", "lowest"), [("fp8", torch.float8_e4m3fnuz, -7), ("bf8", torch.float8_e5m2fnuz, -15)])
def test_cdna3_model_against_exact_fractions(kind, dtype, lowest):
    rng = np.random.default_rng(7)
    scale = 2.0 ** rng.integers(-6, 6, (40, 1, 16))
    a, b = (
        torch.from_numpy((rng.standard_normal((40, 1, 16)) * s).astype(np.float32)).to(dtype).float().numpy() for s in (scale, 1 / scale)
    )
    a[0], b[0] = 0, 0
    c = (rng.standard_normal((40, 1, 1)) * 10.0 ** rng.integers(-9, 9, (40, 1, 1))).astype(np.float32)
    with np.errstate(all="ignore"):
        got = mfma_cdna3.multiply(a, b, c, kind, kind)[:, 0, 0]
    want = [cdna3_by_fractions(a[i, 0], b[i, 0], c[i, 0, 0], lowest) for i in range(40)]
    assert got.tolist() == [float(w) for w in want]


def test_cdna3_rounding_is_not_one_rounding():
    rng = np.random.default_rng(8)
    spread = 2.0 ** rng.integers(-8, 8, (2, 50, 4, 32))
    a, b = (
        torch.from_numpy((rng.standard_normal((50, 4, 32)) * s).astype(np.float32)).to(torch.float8_e4m3fnuz).float().numpy()
        for s in spread
    )
    a, b = np.nan_to_num(a, nan=240.0), np.nan_to_num(b, nan=-240.0)
    c = rng.standard_normal((50, 4, 4)).astype(np.float32)
    once = (a.astype(np.float64) @ b.astype(np.float64).transpose(0, 2, 1) + c).astype(np.float32)
    got = mfma_cdna3.multiply(a, b, c, "fp8", "fp8")
    assert 0 < (got != once).mean() < 1
    assert np.abs(got - once).max() < 2.0**-6
