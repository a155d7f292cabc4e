"""Vector integer instructions against Python integers, lane by lane, over edge values."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from . import asm

M16, M32, M64 = (1 << 16) - 1, (1 << 32) - 1, (1 << 64) - 1
EDGES = (0, 1, 31, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x12345678, 0x00FF8001)
TRIPLES = list(itertools.product(EDGES, EDGES, (0, 3, 0x80000000, 0xFFFFFFFF, 0x0C050107)))


def s(x, bits=32):
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> (bits - 1) else x


def u24(x):
    return x & 0xFFFFFF


def median(*x):
    return sorted(x)[1]


def perm(a, b, c):
    both, out = (a << 32) | b, 0
    for i in range(4):
        k = (c >> 8 * i) & 255
        byte = (both >> 8 * k) & 255 if k < 8 else (0xFF if (both >> (15 + 16 * (k - 8))) & 1 else 0) if k < 12 else 0 if k == 12 else 0xFF
        out |= byte << 8 * i
    return out


def bfe(x, o, n, is_signed):
    n &= 31
    value = (x >> (o & 31)) & ((1 << n) - 1)
    return s(value, n) & M32 if is_signed and n else value


ONE = {
    "v_not_b32_e32": lambda x: ~x,
    "v_bfrev_b32_e32": lambda x: int(f"{x:032b}"[::-1], 2),
    "v_ffbh_u32_e32": lambda x: 32 - x.bit_length() if x else -1,
    "v_ffbl_b32_e32": lambda x: (x & -x).bit_length() - 1,
    "v_mov_b32_e32": lambda x: x,
    "v_ffbh_i32_e32": lambda x: -1 if x in (0, M32) else 32 - (x if x < 1 << 31 else ~x & M32).bit_length(),
    "v_cvt_f32_ubyte1_e32": lambda x: int(np.float32((x >> 8) & 255).view(np.uint32)),
}
TWO = {
    "v_add_u32_e32": lambda x, y: x + y,
    "v_sub_u32_e32": lambda x, y: x - y,
    "v_subrev_u32_e32": lambda x, y: y - x,
    "v_and_b32_e32": lambda x, y: x & y,
    "v_or_b32_e32": lambda x, y: x | y,
    "v_xor_b32_e32": lambda x, y: x ^ y,
    "v_xnor_b32_e32": lambda x, y: ~(x ^ y),
    "v_lshlrev_b32_e32": lambda x, y: y << (x & 31),
    "v_lshrrev_b32_e32": lambda x, y: y >> (x & 31),
    "v_ashrrev_i32_e32": lambda x, y: s(y) >> (x & 31),
    "v_lshlrev_b16_e32": lambda x, y: ((y & M16) << (x & 15)) & M16,
    "v_lshrrev_b16_e32": lambda x, y: (y & M16) >> (x & 15),
    "v_ashrrev_i16_e32": lambda x, y: (s(y, 16) >> (x & 15)) & M16,
    "v_add_u16_e32": lambda x, y: (x + y) & M16,
    "v_sub_u16_e32": lambda x, y: (x - y) & M16,
    "v_mul_lo_u16_e32": lambda x, y: (x * y) & M16,
    "v_max_u16_e32": lambda x, y: max(x & M16, y & M16),
    "v_min_i16_e32": lambda x, y: min(s(x, 16), s(y, 16)) & M16,
    "v_max_i16_e32": lambda x, y: max(s(x, 16), s(y, 16)) & M16,
    "v_min_u16_e32": lambda x, y: min(x & M16, y & M16),
    "v_max_i32_e32": lambda x, y: max(s(x), s(y)),
    "v_min_i32_e32": lambda x, y: min(s(x), s(y)),
    "v_max_u32_e32": max,
    "v_min_u32_e32": min,
    "v_mul_lo_u32": lambda x, y: x * y,
    "v_mul_hi_u32": lambda x, y: (x * y) >> 32,
    "v_mul_hi_i32": lambda x, y: (s(x) * s(y)) >> 32,
    "v_mul_u32_u24_e32": lambda x, y: u24(x) * u24(y),
    "v_mul_i32_i24_e32": lambda x, y: s(x, 24) * s(y, 24),
    "v_mul_hi_u32_u24_e32": lambda x, y: (u24(x) * u24(y)) >> 32,
    "v_bcnt_u32_b32": lambda x, y: x.bit_count() + y,
    "v_bfm_b32": lambda x, y: ((1 << (x & 31)) - 1) << (y & 31),
    "v_pack_b32_f16": lambda x, y: (x & M16) | (y & M16) << 16,
    "v_cvt_pk_u16_u32": lambda x, y: min(x, M16) | min(y, M16) << 16,
    "v_pk_add_u16": lambda x, y: ((x + y) & M16) | ((x >> 16) + (y >> 16) & M16) << 16,
    "v_pk_sub_i16": lambda x, y: ((x - y) & M16) | ((x >> 16) - (y >> 16) & M16) << 16,
    "v_pk_mul_lo_u16": lambda x, y: ((x * y) & M16) | ((x >> 16) * (y >> 16) & M16) << 16,
    "v_pk_max_i16": lambda x, y: (max(s(x, 16), s(y, 16)) & M16) | (max(s(x >> 16, 16), s(y >> 16, 16)) & M16) << 16,
    "v_pk_min_u16": lambda x, y: min(x & M16, y & M16) | min(x >> 16, y >> 16) << 16,
    "v_pk_lshlrev_b16": lambda x, y: ((y & M16) << (x & 15) & M16) | ((y >> 16) << ((x >> 16) & 15) & M16) << 16,
    "v_pk_ashrrev_i16": lambda x, y: (s(y, 16) >> (x & 15) & M16) | (s(y >> 16, 16) >> ((x >> 16) & 15) & M16) << 16,
}
THREE = {
    "v_add3_u32": lambda x, y, z: x + y + z,
    "v_xad_u32": lambda x, y, z: (x ^ y) + z,
    "v_lshl_add_u32": lambda x, y, z: (x << (y & 31)) + z,
    "v_add_lshl_u32": lambda x, y, z: ((x + y) & M32) << (z & 31),
    "v_lshl_or_b32": lambda x, y, z: (x << (y & 31)) | z,
    "v_and_or_b32": lambda x, y, z: (x & y) | z,
    "v_or3_b32": lambda x, y, z: x | y | z,
    "v_bfi_b32": lambda x, y, z: (x & y) | (~x & z),
    "v_bfe_u32": lambda x, y, z: bfe(x, y, z, False),
    "v_bfe_i32": lambda x, y, z: bfe(x, y, z, True),
    "v_perm_b32": perm,
    "v_alignbit_b32": lambda x, y, z: ((x << 32) | y) >> (z & 31),
    "v_alignbyte_b32": lambda x, y, z: ((x << 32) | y) >> 8 * (z & 3),
    "v_sad_u32": lambda x, y, z: abs(x - y) + z,
    "v_mad_u32_u24": lambda x, y, z: u24(x) * u24(y) + z,
    "v_mad_i32_i24": lambda x, y, z: s(x, 24) * s(y, 24) + z,
    "v_max3_i32": lambda x, y, z: max(s(x), s(y), s(z)),
    "v_min3_i32": lambda x, y, z: min(s(x), s(y), s(z)),
    "v_max3_u32": max,
    "v_min3_u32": min,
    "v_med3_i32": lambda x, y, z: median(s(x), s(y), s(z)),
    "v_med3_u32": median,
    "v_mad_u16": lambda x, y, z: (x * y + z) & M16,
    "v_pk_mad_u16": lambda x, y, z: ((x * y + z) & M16) | ((x >> 16) * (y >> 16) + (z >> 16) & M16) << 16,
}


def batches(rows):
    for k in range(0, len(rows), 64):
        part = rows[k : k + 64]
        yield [np.resize(np.array(column, np.uint64), 64).astype(np.uint32) for column in zip(*part, strict=False)], part


@pytest.mark.parametrize("name", [*ONE, *TWO, *THREE])
def test_against_integers(name):
    n = 1 if name in ONE else 2 if name in TWO else 3
    fn = {1: ONE, 2: TWO, 3: THREE}[n][name]
    rows = [(x,) for x in EDGES] if n == 1 else list(itertools.product(EDGES, EDGES)) if n == 2 else TRIPLES
    for columns, part in batches(rows):
        g = asm.run(f"{name} v9, " + ", ".join(f"v{i}" for i in range(1, n + 1)), dict(enumerate(columns, 1)), arch="gfx950")
        for lane, row in enumerate(part):
            assert int(g.V[9, 0, lane]) == fn(*row) & M32, [hex(v) for v in row]


@pytest.mark.parametrize("truth", [0x00, 0x42, 0x6A, 0x80, 0xCA, 0xFF])
def test_bitop3_is_its_truth_table(truth):
    a, b, c = (np.resize(np.array(v, np.uint32), 64) for v in ((0xF0F0F0F0,), (0xCCCCCCCC,), (0xAAAAAAAA,)))
    got = int(asm.run(f"v_bitop3_b32 v4, v1, v2, v3 bitop3:{hex(truth)}", {1: a, 2: b, 3: c}, arch="gfx950").V[4, 0, 0])
    for bit in range(8):  # bit i of the sources spells i
        assert (got >> bit) & 1 == (truth >> bit) & 1


@pytest.mark.parametrize(
    ("name", "fn"),
    [
        ("v_lshlrev_b64", lambda n, x: x << (n & 63)),
        ("v_lshrrev_b64", lambda n, x: x >> (n & 63)),
        ("v_ashrrev_i64", lambda n, x: s(x, 64) >> (n & 63) if x >> 63 == 0 else ((x - (1 << 64)) >> (n & 63))),
    ],
)
def test_wide_shifts(name, fn):
    for x in (0, 1, 1 << 63, M64, 0x123456789ABCDEF0):
        for n in (0, 1, 31, 32, 63, 64):
            g = asm.run(f"{name} v[4:5], v1, v[2:3]", {1: n, 2: x & M32, 3: x >> 32})
            assert (int(g.V[5, 0, 7]) << 32 | int(g.V[4, 0, 7])) == fn(n, x) & M64


def test_carry_instructions_and_wide_multiply_add():
    lines = """v_add_co_u32_e32 v3, vcc, v1, v2
               v_addc_co_u32_e32 v4, vcc, v1, v1, vcc
               v_sub_co_u32_e64 v5, s[4:5], v1, v2
               v_subb_co_u32_e64 v6, s[6:7], v1, v2, s[4:5]
               v_mad_u64_u32 v[10:11], s[8:9], v1, v2, v[12:13]
               v_mad_i64_i32 v[14:15], s[8:9], v1, v2, v[12:13]
               v_lshl_add_u64 v[16:17], v[12:13], 3, v[12:13]"""
    for x, y in itertools.product(EDGES, EDGES):
        v = asm.run(lines, {1: x, 2: y, 12: 5, 13: 0x80000000}).V[:, 0, 3]
        carry, borrow = x + y > M32, y > x
        assert int(v[3]) == (x + y) & M32
        assert int(v[4]) == (2 * x + carry) & M32
        assert int(v[5]) == (x - y) & M32
        assert int(v[6]) == (x - y - borrow) & M32
        assert int(v[11]) << 32 | int(v[10]) == (x * y + 0x8000000000000005) & M64
        assert int(v[15]) << 32 | int(v[14]) == (s(x) * s(y) + 0x8000000000000005) & M64
        assert int(v[17]) << 32 | int(v[16]) == (0x8000000000000005 * 9) & M64


def test_unsigned_clamp_saturates():
    g = asm.run("v_sub_u32_e64 v3, v1, v2 clamp\nv_add_u32_e64 v4, v1, v2 clamp", {1: 5, 2: 0xFFFFFFFE})
    assert int(g.V[3, 0, 0]) == 0
    assert int(g.V[4, 0, 0]) == M32


@pytest.mark.parametrize(
    ("select", "value"), [("BYTE_0", 0xDD), ("BYTE_3", 0xAA), ("WORD_0", 0xCCDD), ("WORD_1", 0xAABB), ("DWORD", 0xAABBCCDD)]
)
def test_sdwa_selects_sources(select, value):
    g = asm.run(f"v_add_u32_sdwa v3, v1, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:{select} src1_sel:DWORD", {1: 0xAABBCCDD, 2: 1})
    assert int(g.V[3, 0, 5]) == (value + 1) & M32


@pytest.mark.parametrize(("unused", "value"), [("UNUSED_PRESERVE", 0x11F13344), ("UNUSED_PAD", 0x00F10000), ("UNUSED_SEXT", 0xFFF10000)])
def test_sdwa_destination(unused, value):
    g = asm.run(
        f"v_or_b32_sdwa v3, v1, v2 dst_sel:BYTE_2 dst_unused:{unused} src0_sel:BYTE_0 src1_sel:BYTE_0", {1: 0xF0, 2: 0x01, 3: 0x11223344}
    )
    assert int(g.V[3, 0, 5]) == value


def test_sdwa_sign_extension():
    assert (
        int(
            asm.run(
                "v_lshlrev_b32_sdwa v3, v1, sext(v2) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:BYTE_1", {1: 1, 2: 0x8000}
            ).V[3, 0, 0]
        )
        == 0xFFFFFF00
    )


def test_inactive_lanes_keep_their_values_and_16_bit_results_clear_the_upper_half():
    g = asm.run("v_add_u32_e32 v1, 1, v1\nv_add_u16_e32 v200, 1, v200", {1: 41, 200: 0xAAAAFFFF}, execute=0x3)
    assert [int(x) for x in g.V[1, 0, :4]] == [42, 42, 41, 41]
    assert [int(x) for x in g.V[200, 0, :4]] == [0, 0, 0xAAAAFFFF, 0xAAAAFFFF]


def test_accumulators_are_registers_of_their_own():
    g = asm.run("v_accvgpr_write_b32 a3, v1\nv_mov_b32_e32 v3, 9\nv_accvgpr_read_b32 v4, a3\nv_accvgpr_mov_b32 a5, a3", {1: 7})
    assert int(g.V[4, 0, 0]) == 7
    assert int(g.V[256 + 5, 0, 0]) == 7
    assert int(g.V[3, 0, 0]) == 9
