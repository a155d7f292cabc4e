"""Vector floating-point instructions against numpy and exact rational arithmetic, over edge values."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from . import asm

INF, NAN = float("inf"), float("nan")
EDGES = (0.0, -0.0, 1.0, -1.5, 2.5, INF, -INF, NAN, 1e-40, -1e-45, 3.4e38, 16777217.0, 1.0000001, 2.0**-126, 0.1)
PAIRS = list(itertools.product(EDGES, EDGES))


def same(got, want):
    got, want = np.asarray(got), np.asarray(want)
    return bool(((got == want) & (np.signbit(got) == np.signbit(want)) | (np.isnan(got) & np.isnan(want))).all())


def vmax(x, y):
    return y if math.isnan(x) else x if math.isnan(y) else max((x, y), key=lambda v: (v, math.copysign(1, v)))


def vmin(x, y):
    return y if math.isnan(x) else x if math.isnan(y) else min((x, y), key=lambda v: (v, math.copysign(1, v)))


TWO = {
    "add": np.add,
    "sub": np.subtract,
    "subrev": lambda x, y: y - x,
    "mul": np.multiply,
    "max": np.vectorize(vmax),
    "min": np.vectorize(vmin),
}


@pytest.mark.parametrize("name", TWO)
def test_two_f32_sources(name):
    for k in range(0, len(PAIRS), 64):
        x, y = (np.resize(np.array([p[i] for p in PAIRS[k : k + 64]], np.float32), 64) for i in (0, 1))
        with np.errstate(all="ignore"):
            want = TWO[name](x, y).astype(np.float32)
        assert same(asm.run(f"v_{name}_f32_e32 v3, v1, v2", {1: x.view(np.uint32), 2: y.view(np.uint32)}).F[3, 0], want)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "max", "min"])
def test_two_f16_sources(name):
    edges = [0.0, -0.0, 1.0, -2.5, 65504.0, 6e-8, 1e-4, INF, NAN, 2049.0]
    rows = list(itertools.product(edges, edges))[:64]
    x, y = (np.resize(np.array([r[i] for r in rows], np.float16), 64) for i in (0, 1))
    with np.errstate(all="ignore"):
        want = TWO[name](x, y).astype(np.float16)
    got = asm.run(f"v_{name}_f16_e32 v3, v1, v2", {1: x.view(np.uint16), 2: y.view(np.uint16)}).V[3, 0]
    assert same(got.astype(np.uint16).view(np.float16), want)
    assert (got >> 16 == 0).all()


@pytest.mark.parametrize("name", ["add", "mul", "max", "min"])
def test_two_f64_sources(name):
    edges = [0.0, -0.0, 1.0, -2.5, 1e308, 5e-324, INF, NAN]
    rows = list(itertools.product(edges, edges))
    x, y = (np.array([r[i] for r in rows]) for i in (0, 1))
    (xl, xh), (yl, yh) = asm.f64(*x), asm.f64(*y)
    g = asm.run(f"v_{name}_f64 v[6:7], v[2:3], v[4:5]", {2: xl, 3: xh, 4: yl, 5: yh})
    got = (g.V[6, 0].astype(np.uint64) | g.V[7, 0].astype(np.uint64) << np.uint64(32)).view(np.float64)
    with np.errstate(all="ignore"):
        assert same(got, TWO[name](x, y))


def rounded(exact: Fraction) -> np.float32:
    """The float32 nearest to a rational number, ties to even."""
    guess = np.float32(float(exact))
    near = [guess, np.nextafter(guess, np.float32(INF)), np.nextafter(guess, np.float32(-INF))]
    finite = [v for v in near if np.isfinite(v)]
    return min(finite, key=lambda v: (abs(Fraction(float(v)) - exact), int(np.float32(v).view(np.uint32)) & 1))


def test_fma_rounds_once():
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(64 * 20).astype(np.float32) for _ in range(2))
    z = -(x * y) * (1 + rng.choice([0.0, 2.0**-23, 2.0**-10, 1.0], x.size)).astype(np.float32)
    ties = np.float32(1 + 2.0**-23)
    x[:4], y[:4], z[:4] = ties, np.float32(1 + 2.0**-12), [2.0**-60, -(2.0**-60), 2.0**-90, 0]
    for k in range(0, x.size, 64):
        a, b, c = x[k : k + 64], y[k : k + 64], z[k : k + 64]
        got = asm.run(
            "v_fma_f32 v4, v1, v2, v3\nv_fmac_f32_e32 v3, v1, v2", {1: a.view(np.uint32), 2: b.view(np.uint32), 3: c.view(np.uint32)}
        )
        want = np.array([rounded(Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r))) for p, q, r in zip(a, b, c, strict=False)])
        assert same(np.where(want == 0, 0, got.F[4, 0]), np.where(want == 0, 0, want))
        assert same(got.F[3, 0], got.F[4, 0])


def test_three_source_minimum_and_maximum():
    values = (1.0, NAN, -2.0, 3.0)
    for row in itertools.product(values, values, values):
        v = {i + 1: asm.f32(x) for i, x in enumerate(row)}
        g = asm.run(
            "v_max3_f32 v4, v1, v2, v3\nv_min3_f32 v5, v1, v2, v3\nv_maximum3_f32 v6, v1, v2, v3\nv_minimum3_f32 v7, v1, v2, v3",
            v,
            arch="gfx950",
        ).F[:, 0, 0]
        numbers = [x for x in row if not math.isnan(x)]
        assert same(g[4], max(numbers, default=NAN))
        assert same(g[5], min(numbers, default=NAN))
        assert same(g[6], NAN if len(numbers) < 3 else max(row))
        assert same(g[7], NAN if len(numbers) < 3 else min(row))
    assert float(asm.run("v_med3_f32 v4, v1, 0, 1.0", {1: asm.f32(7.0)}).F[4, 0, 0]) == 1.0


def test_relu_of_nan_is_zero_in_machine_code():
    assert same(asm.run("v_max_f32_e32 v2, 0, v1", {1: asm.f32(NAN, -0.0, -3.0, 2.0)}).F[2, 0, :4], [0.0, 0.0, 0.0, 2.0])


def test_denormals_are_not_flushed():
    assert same(
        asm.run("v_mul_f32_e32 v2, 0.5, v1\nv_add_f32_e32 v3, v1, v1", {1: asm.f32(1e-40)}).F[2:4, 0, 0],
        [np.float32(1e-40) * np.float32(0.5), np.float32(1e-40) * np.float32(2)],
    )


def test_sign_modifiers_clamp_and_output_scale():
    given = {1: asm.f32(-3.0, NAN), 2: asm.f32(0.25)}
    g = asm.run(
        "v_add_f32_e64 v3, |v1|, -v2\nv_mul_f32_e64 v4, -|v1|, v2 mul:4\nv_add_f32_e64 v5, v1, v2 clamp\nv_mul_f32_e64 v6, -v1, 1.0 div:2",
        given,
    ).F[:, 0]
    assert [float(g[i, 0]) for i in (3, 4, 5, 6)] == [2.75, -3.0, 0.0, 1.5]
    assert float(g[5, 1]) == 0.0


def test_frexp_ldexp_and_class():
    x = np.resize(np.array([0.0, 1.0, -6.0, 1e-40, INF, NAN], np.float32), 64)
    g = asm.run(
        "v_frexp_mant_f32_e32 v2, v1\nv_frexp_exp_i32_f32_e32 v3, v1\nv_ldexp_f32 v4, v2, v3\nv_cmp_class_f32_e64 s[2:3], v1, v9",
        {1: x.view(np.uint32), 9: 0x204},
    )
    assert same(g.F[4, 0, :5], x[:5])
    assert [bool(b) for b in g.mask(2)[0, :6]] == [False, False, False, False, True, False]
    for bit, value in enumerate((NAN, NAN, -INF, -1.0, -1e-40, -0.0, 0.0, 1e-40, 1.0, INF)):
        if bit != 0:
            assert bool(asm.run("v_cmp_class_f32_e64 s[2:3], v1, v9", {1: asm.f32(value), 9: 1 << bit}).mask(2)[0, 0]), value


@pytest.mark.parametrize(
    ("test", "fn"),
    [
        ("lt", lambda x, y: x < y),
        ("eq", lambda x, y: x == y),
        ("lg", lambda x, y: x < y or x > y),
        ("o", lambda x, y: x == x and y == y),
        ("u", lambda x, y: x != x or y != y),
        ("nge", lambda x, y: not x >= y),
        ("ngt", lambda x, y: not x > y),
        ("nlt", lambda x, y: not x < y),
        ("nle", lambda x, y: not x <= y),
        ("neq", lambda x, y: x != y),
        ("ge", lambda x, y: x >= y),
        ("gt", lambda x, y: x > y),
        ("le", lambda x, y: x <= y),
        ("nlg", lambda x, y: not (x < y or x > y)),
    ],
)
def test_float_compare(test, fn):
    rows = list(itertools.product((0.0, -0.0, 1.0, NAN, -INF, INF, 1e-40), repeat=2))
    x, y = (np.resize(np.array([r[i] for r in rows], np.float32), 64) for i in (0, 1))
    given = {1: x.view(np.uint32), 2: y.view(np.uint32)}
    g = asm.run(f"v_cmp_{test}_f32_e32 vcc, v1, v2\nv_cndmask_b32_e32 v3, 0, v9, vcc", given | {9: 5}, execute=(1 << 60) - 1)
    want = [bool(fn(float(p), float(q))) and lane < 60 for lane, (p, q) in enumerate(zip(x, y, strict=False))]
    assert [bool(b) for b in g.mask(106)[0]] == want
    assert [int(v) for v in g.V[3, 0, :60]] == [5 * w for w in want[:60]]


@pytest.mark.parametrize("kind", ["i32", "u32", "i16", "u16", "i64", "u64"])
def test_integer_compare(kind):
    bits = int(kind[1:])
    values = [0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1]
    for x, y in itertools.product(values, values):
        a, b = ((v - (1 << bits) if v >> (bits - 1) and kind[0] == "i" else v) for v in (x, y))
        one, two = ("v[2:3]", "v[4:5]") if bits == 64 else ("v2", "v4")
        lines = "\n".join(
            f"v_cmp_{t}_{kind}_e64 s[{2 * i + 10}:{2 * i + 11}], {one}, {two}" for i, t in enumerate(("lt", "eq", "le", "gt", "ne", "ge"))
        )
        g = asm.run(lines, {2: x & 0xFFFFFFFF, 3: x >> 32, 4: y & 0xFFFFFFFF, 5: y >> 32})
        assert [bool(g.mask(2 * i + 10)[0, 9]) for i in range(6)] == [a < b, a == b, a <= b, a > b, a != b, a >= b]


def test_division_sequence_is_correctly_rounded():
    lines = """v_div_scale_f32 v3, s[2:3], v2, v2, v1
               v_div_scale_f32 v4, vcc, v1, v2, v1
               v_rcp_f32_e32 v5, v3
               v_fma_f32 v6, -v3, v5, 1.0
               v_fmac_f32_e32 v5, v6, v5
               v_mul_f32_e32 v6, v4, v5
               v_fma_f32 v7, -v3, v6, v4
               v_fmac_f32_e32 v6, v7, v5
               v_fma_f32 v3, -v3, v6, v4
               v_div_fmas_f32 v3, v3, v5, v6
               v_div_fixup_f32 v3, v3, v2, v1"""
    rng = np.random.default_rng(3)
    x = (rng.standard_normal(640) * 10.0 ** rng.integers(-38, 38, 640)).astype(np.float32)
    y = (rng.standard_normal(640) * 10.0 ** rng.integers(-38, 38, 640)).astype(np.float32)
    x[:10], y[:10] = [0, 1, INF, INF, NAN, -1, 1e-40, 3e38, 1, 0], [0, 0, 2, INF, 1, INF, 3, 1e-38, 3e38, 5]
    for k in range(0, 640, 64):
        a, b = x[k : k + 64], y[k : k + 64]
        with np.errstate(all="ignore"):
            assert same(asm.run(lines, {1: a.view(np.uint32), 2: b.view(np.uint32)}).F[3, 0], a / b)


def test_packed_f32_selects_and_negates_halves():
    v = {2: asm.f32(1.0), 3: asm.f32(10.0), 4: asm.f32(2.0), 5: asm.f32(20.0)}
    g = asm.run(
        "v_pk_add_f32 v[6:7], v[2:3], v[4:5] op_sel:[1,0] op_sel_hi:[0,1]\nv_pk_mul_f32 v[8:9], v[2:3], v[4:5] op_sel_hi:[1,0] neg_lo:[0,1]\n"  # noqa: E501
        "v_pk_fma_f32 v[10:11], v[2:3], v[4:5], 1.0 op_sel_hi:[1,1,0]\nv_pk_mov_b32 v[2:3], v[2:3], v[4:5] op_sel:[1,0]",
        v,
    ).F[:, 0, 0]
    assert [float(x) for x in g[6:12]] == [12.0, 21.0, -2.0, 20.0, 3.0, 201.0]
    assert [float(x) for x in g[2:4]] == [10.0, 2.0]


def test_op_sel_reaches_the_upper_half():
    pair = int(np.array([1.5, 4.0], np.float16).view(np.uint32)[0])
    g = asm.run(
        "v_add_f16_e64 v3, v1, v1 op_sel:[1,0,0]\nv_mul_f16_e64 v4, v1, v1 op_sel:[1,1,1]\nv_pk_add_f16 v5, v1, v1 op_sel:[1,0] op_sel_hi:[0,1]",  # noqa: E501
        {1: pair, 4: 0x3C00},
    ).V[:, 0, 0]
    halves = np.array([int(g[3]), int(g[4]), int(g[5])], np.uint32).view(np.float16)
    assert [float(x) for x in halves] == [5.5, 0.0, 1.0, 16.0, 5.5, 5.5]
