"""Scalar instructions against Python integers."""

from __future__ import annotations

import pytest

from . import asm

M32, M64 = (1 << 32) - 1, (1 << 64) - 1
EDGES = (0, 1, 2, 31, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 0x12345678, 0x00100004)
EDGES64 = (0, 1, 0x80000000, 0xFFFFFFFF, 1 << 63, M64, 0x123456789ABCDEF0)


def signed(x, bits=32):
    return x - (1 << bits) if x >> (bits - 1) & 1 else x


def clip_shift(x, y, bits):
    return y & (bits - 1)


def field(x, control, bits, is_signed):
    offset, width = control & (bits - 1), min((control >> 16) & 127, bits)
    value = (x >> offset) & ((1 << width) - 1)
    return signed(value, width) & ((1 << bits) - 1) if is_signed and width else value


TWO = {
    "s_and_b32": (lambda x, y: x & y, "nonzero"),
    "s_or_b32": (lambda x, y: x | y, "nonzero"),
    "s_xor_b32": (lambda x, y: x ^ y, "nonzero"),
    "s_andn2_b32": (lambda x, y: x & ~y & M32, "nonzero"),
    "s_orn2_b32": (lambda x, y: (x | ~y) & M32, "nonzero"),
    "s_nand_b32": (lambda x, y: ~(x & y) & M32, "nonzero"),
    "s_nor_b32": (lambda x, y: ~(x | y) & M32, "nonzero"),
    "s_xnor_b32": (lambda x, y: ~(x ^ y) & M32, "nonzero"),
    "s_add_u32": (lambda x, y: (x + y) & M32, lambda x, y: x + y > M32),
    "s_sub_u32": (lambda x, y: (x - y) & M32, lambda x, y: y > x),
    "s_add_i32": (lambda x, y: (x + y) & M32, lambda x, y: not -(2**31) <= signed(x) + signed(y) < 2**31),
    "s_sub_i32": (lambda x, y: (x - y) & M32, lambda x, y: not -(2**31) <= signed(x) - signed(y) < 2**31),
    "s_mul_i32": (lambda x, y: (signed(x) * signed(y)) & M32, None),
    "s_mul_hi_u32": (lambda x, y: (x * y) >> 32, None),
    "s_mul_hi_i32": (lambda x, y: ((signed(x) * signed(y)) >> 32) & M32, None),
    "s_min_i32": (lambda x, y: min(signed(x), signed(y)) & M32, lambda x, y: signed(x) < signed(y)),
    "s_min_u32": (min, lambda x, y: x < y),
    "s_max_i32": (lambda x, y: max(signed(x), signed(y)) & M32, lambda x, y: signed(x) >= signed(y)),
    "s_max_u32": (max, lambda x, y: x >= y),
    "s_lshl_b32": (lambda x, y: (x << (y & 31)) & M32, "nonzero"),
    "s_lshr_b32": (lambda x, y: x >> (y & 31), "nonzero"),
    "s_ashr_i32": (lambda x, y: (signed(x) >> (y & 31)) & M32, "nonzero"),
    "s_lshl1_add_u32": (lambda x, y: ((x << 1) + y) & M32, lambda x, y: (x << 1) + y > M32),
    "s_lshl2_add_u32": (lambda x, y: ((x << 2) + y) & M32, lambda x, y: (x << 2) + y > M32),
    "s_lshl3_add_u32": (lambda x, y: ((x << 3) + y) & M32, lambda x, y: (x << 3) + y > M32),
    "s_lshl4_add_u32": (lambda x, y: ((x << 4) + y) & M32, lambda x, y: (x << 4) + y > M32),
    "s_bfe_u32": (lambda x, y: field(x, y, 32, False), "nonzero"),
    "s_bfe_i32": (lambda x, y: field(x, y, 32, True), "nonzero"),
    "s_bfm_b32": (lambda x, y: (((1 << (x & 31)) - 1) << (y & 31)) & M32, None),
    "s_pack_ll_b32_b16": (lambda x, y: (x & 0xFFFF) | (y & 0xFFFF) << 16, None),
    "s_pack_lh_b32_b16": (lambda x, y: (x & 0xFFFF) | (y >> 16) << 16, None),
    "s_pack_hh_b32_b16": (lambda x, y: (x >> 16) | (y >> 16) << 16, None),
}


@pytest.mark.parametrize("name", TWO)
def test_two_sources(name):
    value, scc = TWO[name]
    for x in EDGES:
        for y in EDGES:
            g = asm.run(f"{name} s4, s2, s3", scalars={2: x, 3: y})
            assert int(g.S[4, 0]) == value(x, y), (hex(x), hex(y))
            if scc is not None:
                assert bool(g.scc[0]) == (value(x, y) != 0 if scc == "nonzero" else scc(x, y)), (hex(x), hex(y))


WIDE = {
    "s_and_b64": lambda x, y: x & y,
    "s_or_b64": lambda x, y: x | y,
    "s_xor_b64": lambda x, y: x ^ y,
    "s_andn2_b64": lambda x, y: x & ~y & M64,
    "s_lshl_b64": lambda x, y: (x << (y & 63)) & M64,
    "s_lshr_b64": lambda x, y: x >> (y & 63),
    "s_ashr_i64": lambda x, y: (signed(x, 64) >> (y & 63)) & M64,
    "s_bfe_u64": lambda x, y: field(x, y & M32, 64, False),
    "s_bfe_i64": lambda x, y: field(x, y & M32, 64, True),
}


@pytest.mark.parametrize("name", WIDE)
def test_two_wide_sources(name):
    right = "s6" if "sh" in name or "bfe" in name else "s[6:7]"
    for x in EDGES64:
        for y in (*EDGES64, 0x00210007):
            g = asm.run(f"{name} s[4:5], s[2:3], {right}", scalars={2: x & M32, 3: x >> 32, 6: y & M32, 7: y >> 32})
            assert int(g.s64(4)[0]) == WIDE[name](x, y), (hex(x), hex(y))


ONE = {
    "s_not_b32": lambda x: ~x & M32,
    "s_brev_b32": lambda x: int(f"{x:032b}"[::-1], 2),
    "s_abs_i32": lambda x: abs(signed(x)) & M32,
    "s_bcnt1_i32_b32": lambda x: x.bit_count(),
    "s_bcnt0_i32_b32": lambda x: 32 - x.bit_count(),
    "s_sext_i32_i8": lambda x: signed(x & 255, 8) & M32,
    "s_sext_i32_i16": lambda x: signed(x & 0xFFFF, 16) & M32,
    "s_ff1_i32_b32": lambda x: (x & -x).bit_length() - 1 & M32 if x else M32,
    "s_flbit_i32_b32": lambda x: 32 - x.bit_length() if x else M32,
    "s_mov_b32": lambda x: x,
    "s_flbit_i32": lambda x: M32 if x in (0, M32) else 32 - (x if x < 1 << 31 else ~x & M32).bit_length(),
}


@pytest.mark.parametrize("name", ONE)
def test_one_source(name):
    for x in (*EDGES, 0x80, 0x8000, 0xFF7F):
        assert int(asm.run(f"{name} s4, s2", scalars={2: x}).S[4, 0]) == ONE[name](x), hex(x)


@pytest.mark.parametrize("name", ["eq", "lg", "gt", "ge", "lt", "le"])
@pytest.mark.parametrize("kind", ["i32", "u32"])
def test_compare(name, kind):
    fn = {"eq": "__eq__", "lg": "__ne__", "gt": "__gt__", "ge": "__ge__", "lt": "__lt__", "le": "__le__"}[name]
    for x in EDGES:
        for y in EDGES:
            a, b = (signed(x), signed(y)) if kind == "i32" else (x, y)
            assert bool(asm.run(f"s_cmp_{name}_{kind} s2, s3", scalars={2: x, 3: y}).scc[0]) == getattr(a, fn)(b)


def test_carry_chain_adds_64_bits():
    for x in EDGES64:
        for y in EDGES64:
            given = {2: x & M32, 3: x >> 32, 4: y & M32, 5: y >> 32}
            g = asm.run("s_add_u32 s6, s2, s4\ns_addc_u32 s7, s3, s5\ns_sub_u32 s8, s2, s4\ns_subb_u32 s9, s3, s5", scalars=given)
            assert int(g.s64(6)[0]) == (x + y) & M64
            assert int(g.s64(8)[0]) == (x - y) & M64


def test_immediates_are_sign_extended():
    g = asm.run(
        "s_movk_i32 s2, 0xff00\ns_mov_b32 s3, 5\ns_addk_i32 s3, 0xfff0\ns_mov_b32 s4, 7\ns_mulk_i32 s4, 0xffff\ns_cmpk_lt_i32 s3, 0xfffe"
    )
    assert [signed(int(g.S[i, 0])) for i in (2, 3, 4)] == [-256, -11, -7]
    assert bool(g.scc[0])


def test_bit_tests_and_selects():
    g = asm.run(
        "s_bitcmp1_b32 s2, 4\ns_cselect_b32 s4, s2, s3\ns_cselect_b64 s[6:7], -1, 0\ns_bitset0_b32 s2, 4\ns_bitset1_b32 s3, 31",
        scalars={2: 0x10, 3: 9},
    )
    assert (int(g.S[4, 0]), int(g.s64(6)[0]), int(g.S[2, 0]), int(g.S[3, 0])) == (0x10, M64, 0, 0x80000009)


def test_saveexec_switches_lanes():
    g = asm.run(
        "s_and_saveexec_b64 s[4:5], s[2:3]\nv_mov_b32_e32 v1, 7\ns_or_b64 exec, exec, s[4:5]\nv_mov_b32_e32 v2, 9", scalars={2: 0xF0, 3: 0}
    )
    assert [int(x) for x in g.V[1, 0, 3:9]] == [0, 7, 7, 7, 7, 0]
    assert (g.V[2] == 9).all()
    assert int(g.s64(4)[0]) == M64
