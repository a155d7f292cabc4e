"""The remaining forms of each family: every compare, scalar forms, half and double precision, the widest products."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from . import asm

INF, NAN = float("inf"), float("nan")
FLOAT_TESTS = {
    "f": lambda x, y: False,
    "lt": lambda x, y: x < y,
    "eq": lambda x, y: x == y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "lg": lambda x, y: x < y or x > y,
    "ge": lambda x, y: x >= y,
    "o": lambda x, y: x == x and y == y,
    "u": lambda x, y: x != x or y != y,
    "nge": lambda x, y: not x >= y,
    "nlg": lambda x, y: not (x < y or x > y),
    "ngt": lambda x, y: not x > y,
    "nle": lambda x, y: not x <= y,
    "neq": lambda x, y: x != y,
    "nlt": lambda x, y: not x < y,
    "tru": lambda x, y: True,
}
NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def registers(values, kind):
    """Values of a kind as one or two registers."""
    bits = np.resize(np.array(values, NUMPY[kind]), 64)
    if kind == "f64":
        return asm.f64(*bits)
    return (bits.view(np.uint16 if kind == "f16" else np.uint32).astype(np.uint32),)


def given(columns, kind):
    """Vector operands v[2:3], v[4:5], ... and their registers."""
    out = {}
    for i, column in enumerate(columns):
        out |= {2 + 2 * i + k: word for k, word in enumerate(registers(column, kind))}
    return out


def operand(i, kind):
    return f"v[{i}:{i + 1}]" if kind.endswith("64") else f"v{i}"


def result(g, i, kind):
    if kind == "f64":
        return (g.V[i, 0].astype(np.uint64) | g.V[i + 1, 0].astype(np.uint64) << np.uint64(32)).view(np.float64)
    return g.V[i, 0].astype(np.uint16).view(np.float16) if kind == "f16" else g.F[i, 0]


def same(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return bool(((a == b) | (np.isnan(a) & np.isnan(b))).all())


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
@pytest.mark.parametrize("test", FLOAT_TESTS)
def test_float_compares_and_their_exec_forms(test, kind):
    rows = list(itertools.product((0.0, -0.0, 1.0, NAN, -INF, INF), repeat=2))
    columns = [[r[i] for r in rows] for i in (0, 1)]
    lines = "v_cmp_{t}_{k}_e64 s[10:11], {a}, {b}\nv_cmpx_{t}_{k}_e64 s[12:13], {a}, {b}\nv_mov_b32_e32 v9, 1"
    g = asm.run(lines.format(t=test, k=kind, a=operand(2, kind), b=operand(4, kind)), given(columns, kind) | {9: 0})
    want = [bool(FLOAT_TESTS[test](*rows[i % len(rows)])) for i in range(64)]
    assert g.mask(10)[0].tolist() == want
    assert g.mask(12)[0].tolist() == want
    assert (g.V[9, 0] == np.array(want, np.uint32)).all()


@pytest.mark.parametrize("kind", ["i16", "u16", "i32", "u32", "i64", "u64"])
@pytest.mark.parametrize("test", ["lt", "eq", "le", "gt", "ne", "ge"])
def test_integer_compares_of_exec(test, kind):
    bits = int(kind[1:])
    edges = (0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1)
    rows = list(itertools.product(edges, edges))
    words = [np.resize(np.array([r[i] for r in rows], np.uint64), 64) for i in (0, 1)]
    v = {2: words[0] & 0xFFFFFFFF, 3: words[0] >> np.uint64(32), 4: words[1] & 0xFFFFFFFF, 5: words[1] >> np.uint64(32)}
    g = asm.run(f"v_cmpx_{test}_{kind}_e32 vcc, {operand(2, kind)}, {operand(4, kind)}", v)
    name = {"lt": "__lt__", "eq": "__eq__", "le": "__le__", "gt": "__gt__", "ne": "__ne__", "ge": "__ge__"}[test]
    for lane in range(64):
        a, b = (x - (1 << bits) if kind[0] == "i" and x >> (bits - 1) else x for x in rows[lane % len(rows)])
        assert bool(g.exec[0, lane]) == getattr(a, name)(b)


UNARY = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rndne": np.rint,
    "sqrt": np.sqrt,
    "rcp": lambda x: 1 / x,
    "rsq": lambda x: 1 / np.sqrt(x),
    "exp": np.exp2,
    "log": np.log2,
}


@pytest.mark.parametrize(
    ("kind", "name"), [("f16", n) for n in UNARY] + [("f64", n) for n in ("floor", "ceil", "trunc", "rndne", "sqrt", "rcp", "rsq")]
)
def test_half_and_double_functions(kind, name):
    values = np.array([0.0, 0.5, 1.5, -2.5, 3.999, INF, NAN, 100.0, 0.001], NUMPY[kind])
    g = asm.run(f"v_{name}_{kind}_e32 {operand(8, kind)}, {operand(2, kind)}", given([values], kind))
    with np.errstate(all="ignore"):
        want = UNARY[name](values.astype(np.float32 if kind == "f16" else np.float64)).astype(NUMPY[kind])
    assert same(result(g, 8, kind)[: len(values)], want)


@pytest.mark.parametrize(
    ("name", "fn"),
    [
        ("v_fma_f16", lambda x, y, z: x * y + z),
        ("v_max3_f16", lambda x, y, z: np.fmax(np.fmax(x, y), z)),
        ("v_min3_f16", lambda x, y, z: np.fmin(np.fmin(x, y), z)),
        ("v_med3_f16", lambda x, y, z: np.median([x, y, z], 0)),
        ("v_div_fixup_f16", lambda x, y, z: np.copysign(np.abs(x), y * z)),
    ],
)
def test_three_half_sources(name, fn):
    kind = name[-3:]
    columns = [np.array(v, NUMPY[kind]) for v in ([1.5, -2.0, 3.0], [0.5, 4.0, -8.0], [2.0, 1.0, 16.0])]
    g = asm.run(f"{name} v10, v2, v4, v6", given(columns, kind))
    assert same(result(g, 10, kind)[:3], fn(*(c.astype(np.float64) for c in columns)))


def test_double_division_pieces_and_conversions():
    x, y = (np.array(v) for v in ([1.0, -10.0, 1e300, 3.0], [3.0, 7.0, 1e-5, 1e-310]))
    lines = """v_div_scale_f64 v[10:11], s[2:3], v[4:5], v[4:5], v[2:3]
               v_div_scale_f64 v[12:13], vcc, v[2:3], v[4:5], v[2:3]
               v_rcp_f64_e32 v[14:15], v[10:11]
               v_mul_f64 v[16:17], v[12:13], v[14:15]
               v_fma_f64 v[18:19], -v[10:11], v[16:17], v[12:13]
               v_div_fmas_f64 v[16:17], v[18:19], v[14:15], v[16:17]
               v_div_fixup_f64 v[16:17], v[16:17], v[4:5], v[2:3]
               v_cvt_u32_f64_e32 v20, v[4:5]
               v_cvt_f64_i32_e32 v[22:23], v30
               v_frexp_mant_f64_e32 v[24:25], v[4:5]
               v_frexp_exp_i32_f64_e32 v26, v[4:5]
               v_ldexp_f64 v[28:29], v[24:25], v26
               v_fract_f64_e32 v[32:33], v[4:5]
               v_cmp_class_f64_e64 s[4:5], v[4:5], v31"""
    g = asm.run(lines, given([x, y], "f64") | {30: 0xFFFFFFFB, 31: 0x80})
    assert result(g, 16, "f64")[:3].tolist() == pytest.approx((x[:3] / y[:3]).tolist(), rel=1e-15)
    assert g.V[20, 0, :4].tolist() == [3, 7, 0, 0]
    assert (result(g, 22, "f64") == -5.0).all()
    assert same(result(g, 28, "f64")[:4], y)
    assert same(result(g, 32, "f64")[:4], y % 1)
    assert g.mask(4)[0, :4].tolist() == [False, False, False, True]


def test_mixed_precision_fma():
    pair = int(np.array([1.5, -2.0], np.float16).view(np.uint32)[0])
    lines = """v_fma_mix_f32 v4, v1, v1, v2 op_sel:[0,1,0] op_sel_hi:[1,1,0]
               v_fma_mixlo_f16 v5, v1, v2, 0 op_sel_hi:[1,0,0]
               v_fma_mixhi_f16 v5, v1, v2, 1.0 op_sel:[1,0,0] op_sel_hi:[1,0,0]
               v_pk_mul_f16 v6, v1, v1
               v_pk_fma_f16 v7, v1, v1, v1 neg_lo:[1,0,0]
               v_pk_max_f16 v8, v1, v1 op_sel:[1,0] op_sel_hi:[0,1]
               v_pk_min_f16 v9, v1, v1 op_sel:[1,0] op_sel_hi:[0,1]"""
    g = asm.run(lines, {1: pair, 2: asm.f32(4.0), 5: 0})
    assert float(g.F[4, 0, 0]) == 1.0
    halves = [g.V[i, 0, :1].view(np.float16).tolist() for i in (5, 6, 7, 8, 9)]
    assert halves == [[6.0, -7.0], [2.25, 4.0], [-0.75, 2.0], [1.5, 1.5], [-2.0, -2.0]]


@pytest.mark.parametrize("kind", ["i32", "u32"])
@pytest.mark.parametrize("test", ["eq", "lg", "gt", "ge", "lt", "le"])
def test_scalar_compares_with_immediates(test, kind):
    name = {"eq": "__eq__", "lg": "__ne__", "gt": "__gt__", "ge": "__ge__", "lt": "__lt__", "le": "__le__"}[test]
    for x in (0, 5, 0xFFFFFFFF, 0x8000, 0xFFFF8000):
        for k in (0, 5, 0x8000, 0xFFFF):
            a, b = (x, k) if kind == "u32" else (x - (x >> 31 << 32), k - (k >> 15 << 16))
            assert bool(asm.run(f"s_cmpk_{test}_{kind} s2, {hex(k)}", scalars={2: x}).scc[0]) == getattr(a, name)(b)


@pytest.mark.parametrize(
    ("name", "fn"),
    [
        ("and", lambda s, e: s & e),
        ("or", lambda s, e: s | e),
        ("xor", lambda s, e: s ^ e),
        ("andn1", lambda s, e: ~s & e),
        ("andn2", lambda s, e: s & ~e),
        ("orn1", lambda s, e: ~s | e),
        ("orn2", lambda s, e: s | ~e),
    ],
)
def test_every_saveexec(name, fn):
    source, execute = 0xFF00FF00, 0xF0F0F0F0F0F0F0F0
    g = asm.run(f"s_{name}_saveexec_b64 s[4:5], s[2:3]", scalars={2: source, 3: 0}, execute=execute)
    assert int(g.s64(4)[0]) == execute
    assert int(g.s64(126)[0]) == fn(source, execute) & ((1 << 64) - 1)


def test_scalar_moves_that_depend_on_scc_and_wide_scalars():
    lines = """s_cmov_b32 s4, s2
               s_cmov_b64 s[6:7], s[2:3]
               s_cmovk_i32 s8, 0xfffe
               s_cmp_eq_u64 s[2:3], s[2:3]
               s_cselect_b32 s9, 1, 0
               s_cmp_lg_u64 s[2:3], s[2:3]
               s_cselect_b32 s10, 1, 0
               s_not_b64 s[12:13], s[2:3]
               s_ff1_i32_b64 s14, s[2:3]
               s_bcnt0_i32_b64 s15, s[2:3]
               s_bcnt1_i32_b64 s16, s[2:3]
               s_bfm_b64 s[18:19], 40, 3
               s_bitcmp1_b64 s[2:3], 36
               s_cselect_b32 s20, 1, 0
               s_bitcmp0_b64 s[2:3], 36
               s_cselect_b32 s21, 1, 0
               s_nand_b64 s[22:23], s[2:3], -1
               s_nor_b64 s[24:25], s[2:3], 0
               s_xnor_b64 s[26:27], s[2:3], 0
               s_orn2_b64 s[28:29], 0, s[2:3]"""
    value = 0x1000000010
    g = asm.run(lines, scalars={2: value & 0xFFFFFFFF, 3: value >> 32}, scc=True)
    inverse = ~value & ((1 << 64) - 1)
    assert int(g.S[4, 0]) == 16
    assert int(g.s64(6)[0]) == value
    assert int(g.S[8, 0]) == 0xFFFFFFFE
    assert [int(g.S[i, 0]) for i in (9, 10, 14, 15, 16, 20, 21)] == [1, 0, 4, 62, 2, 1, 0]
    assert int(g.s64(18)[0]) == ((1 << 40) - 1) << 3
    assert [int(g.s64(i)[0]) for i in (12, 22, 24, 26, 28)] == [inverse] * 5


@pytest.mark.parametrize(
    ("name", "size", "depth", "scaled"),
    [("v_mfma_f32_16x16x128_f8f6f4", 16, 128, False), ("v_mfma_scale_f32_16x16x128_f8f6f4", 16, 128, True)],
)
def test_widest_fp8_product(name, size, depth, scaled):
    rng = np.random.default_rng(4)
    codes = rng.choice(np.array([0x00, 0x38, 0x40, 0xB8, 0x30], np.uint8), (2, 64, 32))  # 0, 1, 2, -1, 0.5
    value = {0x00: 0.0, 0x38: 1.0, 0x40: 2.0, 0xB8: -1.0, 0x30: 0.5}
    vectors = {10 * (1 + m) + k: row for m in (0, 1) for k, row in enumerate(codes[m].view(np.uint32).T)}
    extra = ", v40, v41" if scaled else ""
    vectors |= {40: 129, 41: 126} if scaled else {}
    g = asm.run(f"{name} v[0:3], v[10:17], v[20:27], 0{extra}", vectors, arch="gfx950")
    numbers = np.vectorize(value.get)(codes)
    for lane in (0, 20, 63):
        for v in range(4):
            row, column = 4 * (lane // 16) + v, lane % 16
            total = sum(numbers[0, row + 16 * h, k] * numbers[1, column + 16 * h, k] for h in range(4) for k in range(32))
            assert float(g.F[v, 0, lane]) == total * (2.0 if scaled else 1.0)
