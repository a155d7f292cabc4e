"""Every vector integer instruction over edge values, against numpy on wider integers."""

from __future__ import annotations

import numpy as np
import pytest

from . import opcodes

I64, U64 = np.int64, np.uint64


def w(x):
    """Python integers, which do not wrap."""
    return x.astype(object)


def each(fn):
    """A formula on Python integers, element by element, wrapped to the width of the sources (`out` bits if given)."""

    def run(*columns, out=None):
        bits = out or 8 * columns[-1].itemsize
        return np.array([fn(*(int(v) for v in row)) & ((1 << bits) - 1) for row in zip(*columns, strict=True)], f"u{bits // 8}")

    return run


def to32(fn):
    return lambda *columns: each(fn)(*columns, out=32)


def to64(fn):
    return lambda *columns: each(fn)(*columns, out=64)


def low24(x):
    return x & 0xFFFFFF


def signed24(x):
    x &= 0xFFFFFF
    return x - (1 << 24) if x >> 23 else x


def middle(*x):
    return sorted(x)[1]


def bits_of(x, offset, width):
    return x >> (offset & 31) & ((1 << (width & 31)) - 1)


def signed_bits_of(x, offset, width):
    value, n = bits_of(x, offset, width), width & 31
    return value - (1 << n) if n and value >> (n - 1) else value


def perm(a, b, control):
    data, out = (a << 32 | b).to_bytes(8, "little"), 0
    for i in range(4):
        c = control >> 8 * i & 255
        byte = 0xFF if c >= 13 else 0 if c == 12 else 0xFF * (data[2 * (c - 8) + 1] >> 7) if c >= 8 else data[c]
        out |= byte << 8 * i
    return out


def leading_run(x):
    """Bits equal to the sign below it, -1 when all are."""
    text = f"{x:032b}"
    return next((i for i in range(32) if text[i] != text[0]), -1)


U1 = {
    "v_not_b32": lambda x: ~x,
    "v_bfrev_b32": lambda x: int(f"{x:032b}"[::-1], 2),
    "v_ffbh_u32": lambda x: f"{x:032b}".find("1"),
    "v_ffbl_b32": lambda x: f"{x:032b}"[::-1].find("1"),
    "v_ffbh_i32": leading_run,
    "v_mov_b32": lambda x: x,
}
U2 = {
    "v_add_u32": lambda x, y: x + y,
    "v_sub_u32": lambda x, y: x - y,
    "v_subrev_u32": lambda x, y: y - x,
    "v_add_i32": lambda x, y: x + y,
    "v_sub_i32": lambda x, y: x - y,
    "v_and_b32": lambda x, y: x & y,
    "v_or_b32": lambda x, y: x | y,
    "v_xor_b32": lambda x, y: x ^ y,
    "v_xnor_b32": lambda x, y: ~(x ^ y),
    "v_lshlrev_b32": lambda x, y: y << (x & 31),
    "v_lshrrev_b32": lambda x, y: y >> (x & 31),
    "v_max_u32": max,
    "v_min_u32": min,
    "v_mul_lo_u32": lambda x, y: x * y,
    "v_mul_hi_u32": lambda x, y: x * y >> 32,
    "v_mul_u32_u24": lambda x, y: low24(x) * low24(y),
    "v_mul_i32_i24": lambda x, y: signed24(x) * signed24(y),
    "v_mul_hi_u32_u24": lambda x, y: low24(x) * low24(y) >> 32,
    "v_mul_hi_i32_i24": lambda x, y: signed24(x) * signed24(y) >> 32,
    "v_bcnt_u32_b32": lambda x, y: x.bit_count() + y,
    "v_bfm_b32": lambda x, y: ((1 << (x & 31)) - 1) << (y & 31),
    "v_cvt_pk_u16_u32": lambda x, y: min(x, 0xFFFF) | min(y, 0xFFFF) << 16,
}
I2 = {
    "v_max_i32": max,
    "v_min_i32": min,
    "v_mul_hi_i32": lambda x, y: x * y >> 32,
    "v_cvt_pk_i16_i32": lambda x, y: sorted((-32768, x, 32767))[1] & 0xFFFF | (sorted((-32768, y, 32767))[1] & 0xFFFF) << 16,
}
U3 = {
    "v_add3_u32": lambda x, y, z: x + y + z,
    "v_xad_u32": lambda x, y, z: (x ^ y) + z,
    "v_lshl_add_u32": lambda x, y, z: (x << (y & 31)) + z,
    "v_add_lshl_u32": lambda x, y, z: x + y << (z & 31),
    "v_lshl_or_b32": lambda x, y, z: x << (y & 31) | z,
    "v_and_or_b32": lambda x, y, z: x & y | z,
    "v_or3_b32": lambda x, y, z: x | y | z,
    "v_bfi_b32": lambda x, y, z: x & y | ~x & z,
    "v_bfe_u32": bits_of,
    "v_bfe_i32": signed_bits_of,
    "v_perm_b32": perm,
    "v_alignbit_b32": lambda x, y, z: (x << 32 | y) >> (z & 31),
    "v_alignbyte_b32": lambda x, y, z: (x << 32 | y) >> 8 * (z & 3),
    "v_sad_u32": lambda x, y, z: abs(x - y) + z,
    "v_mad_u32_u24": lambda x, y, z: low24(x) * low24(y) + z,
    "v_mad_i32_i24": lambda x, y, z: signed24(x) * signed24(y) + z,
    "v_max3_u32": max,
    "v_min3_u32": min,
    "v_med3_u32": middle,
}
I3 = {"v_max3_i32": max, "v_min3_i32": min, "v_med3_i32": middle}
ROWS = {n: ("u32", "u32", each(f)) for n, f in U1.items()}
ROWS |= {n: ("u32", "u32 u32", each(f)) for n, f in U2.items()}
ROWS |= {n: ("u32", "i32 i32", each(f)) for n, f in I2.items()}
ROWS |= {n: ("u32", "u32 u32 u32", each(f)) for n, f in U3.items()}
ROWS |= {n: ("u32", "i32 i32 i32", each(f)) for n, f in I3.items()}
ROWS |= {
    "v_ashrrev_i32": ("u32", "u32 i32", each(lambda x, y: y >> (x & 31))),
    "v_lshlrev_b64": ("u64", "u32 u64", each(lambda x, y: y << (x & 63))),
    "v_lshrrev_b64": ("u64", "u32 u64", each(lambda x, y: y >> (x & 63))),
    "v_ashrrev_i64": ("u64", "u32 i64", each(lambda x, y: y >> (x & 63))),
    "v_lshl_add_u64": ("u64", "u64 u32 u64", each(lambda x, n, y: (x << (n & 7 if n & 7 <= 4 else 0)) + y)),
    "v_mov_b64": ("u64", "u64", lambda x: x),
}
B16 = {
    "v_lshlrev_b16": ("u16", "u16 u16", each(lambda x, y: y << (x & 15))),
    "v_lshrrev_b16": ("u16", "u16 u16", each(lambda x, y: y >> (x & 15))),
    "v_ashrrev_i16": ("u16", "u16 i16", each(lambda x, y: y >> (x & 15))),
    "v_add_u16": ("u16", "u16 u16", each(lambda x, y: x + y)),
    "v_sub_u16": ("u16", "u16 u16", each(lambda x, y: x - y)),
    "v_subrev_u16": ("u16", "u16 u16", each(lambda x, y: y - x)),
    "v_mul_lo_u16": ("u16", "u16 u16", each(lambda x, y: x * y)),
    "v_max_u16": ("u16", "u16 u16", each(max)),
    "v_min_u16": ("u16", "u16 u16", each(min)),
    "v_max_i16": ("u16", "i16 i16", each(max)),
    "v_min_i16": ("u16", "i16 i16", each(min)),
    "v_mad_legacy_u16": ("u16", "u16 u16 u16", each(lambda x, y, z: x * y + z)),
    "v_mad_legacy_i16": ("u16", "i16 i16 i16", each(lambda x, y, z: x * y + z)),
}
KEEPING = {  # the upper half is kept
    "v_mad_u16": ("u16", "u16 u16 u16", each(lambda x, y, z: x * y + z)),
    "v_mad_i16": ("u16", "i16 i16 i16", each(lambda x, y, z: x * y + z)),
}
EITHER = {  # the manual does not say what becomes of the upper half
    "v_max3_i16": ("u16", "i16 i16 i16", each(max)),
    "v_min3_i16": ("u16", "i16 i16 i16", each(min)),
    "v_med3_i16": ("u16", "i16 i16 i16", each(middle)),
    "v_max3_u16": ("u16", "u16 u16 u16", each(max)),
    "v_min3_u16": ("u16", "u16 u16 u16", each(min)),
    "v_med3_u16": ("u16", "u16 u16 u16", each(middle)),
}
UPPER = dict.fromkeys(B16, "zero") | dict.fromkeys(KEEPING, "old") | dict.fromkeys(EITHER, "any")
TABLE = ROWS | B16 | KEEPING | EITHER


@pytest.mark.parametrize("mnemonic", TABLE)
def test_integer(mnemonic):
    result, kinds, formula = TABLE[mnemonic]
    sources = ", ".join("{" + n + "}" for n in "abc"[: len(kinds.split())])
    opcodes.check(f"{mnemonic} {{d}}, {sources}", result, kinds, formula, upper=UPPER.get(mnemonic, "zero"))


@pytest.mark.parametrize(("mnemonic", "width"), [("v_bitop3_b32", 32), ("v_bitop3_b16", 16)])
@pytest.mark.parametrize("truth", [0x00, 0x01, 0x42, 0x6A, 0x80, 0xCA, 0xFE, 0xFF])
def test_bitop3(mnemonic, width, truth):
    def formula(*columns):
        def one(a, b, c):
            return sum((truth >> (4 * (a >> i & 1) + 2 * (b >> i & 1) + (c >> i & 1)) & 1) << i for i in range(width))

        return each(one)(*columns)

    kind = f"u{width}"
    opcodes.check(f"{mnemonic} {{d}}, {{a}}, {{b}}, {{c}} bitop3:{hex(truth)}", kind, f"{kind} {kind} {kind}", formula, upper="any")


ACCUMULATORS = ["v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32", "v_accvgpr_read", "v_accvgpr_write"]
