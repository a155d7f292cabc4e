"""Vector integer and bit instructions of one 32-bit or 16-bit result."""

from __future__ import annotations

import numpy as np

from .decoder import Decoder, Step, op
from .scalar_bits import leading_zeros, popcount, reverse_bits, sign_run, trailing_zeros
from .state import Group
from .vector import destination, sources, store, table

U32, U64, I32, I64, U16 = np.uint32, np.uint64, np.int32, np.int64, np.uint16
L5 = U32(31)


def shifted(fn, dtype, low):
    """A shift whose amount comes first and is taken modulo the width."""
    return lambda n, x: fn(x, (n & n.dtype.type(low)).astype(dtype))


def field(signed):
    """Bit field extraction, signed or not."""

    def extract(x, offset, width):
        offset, width = offset & L5, width & L5
        value = (x >> offset) & ((U32(1) << width) - U32(1))
        if signed:
            top = np.where(width > 0, U32(1) << (np.maximum(width, U32(1)) - U32(1)), U32(0))
            value = (value ^ top) - top
        return value

    return extract


def permute_bytes(a, b, control):
    """v_perm_b32: each byte of the control picks one of the eight bytes of {a, b}, a sign, 0x00 or 0xff."""
    a, b, control = np.broadcast_arrays(a, b, control)
    both = b.astype(U64) | (a.astype(U64) << U64(32))
    out = np.zeros(a.shape, U32)
    for i in range(4):
        c = (control >> U32(8 * i)) & U32(0xFF)
        byte = (both >> (np.minimum(c, U32(7)).astype(U64) * U64(8))) & U64(0xFF)
        if (c > 7).any():
            sign_at = np.array([15, 31, 47, 63], U64)[np.clip(c.astype(I64) - 8, 0, 3)]
            sign = np.where((both >> sign_at) & U64(1), U64(0xFF), U64(0))
            byte = np.where(c < 8, byte, np.where(c < 12, sign, np.where(c == 12, U64(0), U64(0xFF))))
        out |= byte.astype(U32) << U32(8 * i)
    return out


def align(bytes_):
    """A word taken from two at a bit or byte offset."""

    def run(high, low, n):
        amount = (n & U32(3)).astype(U64) * U64(8) if bytes_ else (n & L5).astype(U64)
        return ((low.astype(U64) | (high.astype(U64) << U64(32))) >> amount).astype(U32)

    return run


def low24(x):
    """The low 24 bits."""
    return x & U32(0xFFFFFF)


def signed24(x):
    """The low 24 bits, sign-extended."""
    return ((x << U32(8)).view(I32) >> I32(8)).astype(I64)


def sad(x, y, z):
    """Absolute difference plus a third source."""
    return z + (np.maximum(x, y) - np.minimum(x, y))


def median(x, y, z):
    """The middle of three."""
    return np.maximum(np.minimum(x, y), np.minimum(np.maximum(x, y), z))


def times(x, y, dtype, shift=0):
    """A product in a wider type, shifted."""
    return ((x.astype(dtype) * y.astype(dtype)) >> dtype(shift)).astype(U32)


def shift_to_4(n):
    """The count of v_lshl_add_u64: its low three bits, and above 4 no shift."""
    n = n & U32(7)
    return np.where(n > 4, U32(0), n).astype(U64)


def count_bits(x, y):
    """Set bits plus a second source."""
    return popcount(np.asarray(x)).astype(U32) + y


table(
    {
        "v_add_u32": ("u32", "u32 u32", np.add),
        "v_sub_u32": ("u32", "u32 u32", np.subtract),
        "v_subrev_u32": ("u32", "u32 u32", lambda x, y: y - x),
        "v_add_i32": ("u32", "u32 u32", np.add),
        "v_sub_i32": ("u32", "u32 u32", np.subtract),
        "v_and_b32": ("u32", "u32 u32", np.bitwise_and),
        "v_or_b32": ("u32", "u32 u32", np.bitwise_or),
        "v_xor_b32": ("u32", "u32 u32", np.bitwise_xor),
        "v_xnor_b32": ("u32", "u32 u32", lambda x, y: ~(x ^ y)),
        "v_not_b32": ("u32", "u32", np.invert),
        "v_lshlrev_b32": ("u32", "u32 u32", shifted(np.left_shift, U32, 31)),
        "v_lshrrev_b32": ("u32", "u32 u32", shifted(np.right_shift, U32, 31)),
        "v_ashrrev_i32": ("i32", "u32 i32", shifted(np.right_shift, I32, 31)),
        "v_lshlrev_b16": ("u16", "u16 u16", shifted(np.left_shift, U16, 15)),
        "v_lshrrev_b16": ("u16", "u16 u16", shifted(np.right_shift, U16, 15)),
        "v_ashrrev_i16": ("i16", "u16 i16", shifted(np.right_shift, np.int16, 15)),
        "v_add_u16": ("u16", "u16 u16", np.add),
        "v_sub_u16": ("u16", "u16 u16", np.subtract),
        "v_subrev_u16": ("u16", "u16 u16", lambda x, y: y - x),
        "v_mul_lo_u16": ("u16", "u16 u16", np.multiply),
        "v_mad_u16": ("u16", "u16 u16 u16", lambda x, y, z: x * y + z),
        "v_mad_i16": ("u16", "u16 u16 u16", lambda x, y, z: x * y + z),
        "v_mad_legacy_u16": ("u16", "u16 u16 u16", lambda x, y, z: x * y + z),
        "v_mad_legacy_i16": ("u16", "u16 u16 u16", lambda x, y, z: x * y + z),
        "v_max_u16": ("u16", "u16 u16", np.maximum),
        "v_min_u16": ("u16", "u16 u16", np.minimum),
        "v_max_i16": ("i16", "i16 i16", np.maximum),
        "v_min_i16": ("i16", "i16 i16", np.minimum),
        "v_max_i32": ("i32", "i32 i32", np.maximum),
        "v_min_i32": ("i32", "i32 i32", np.minimum),
        "v_max_u32": ("u32", "u32 u32", np.maximum),
        "v_min_u32": ("u32", "u32 u32", np.minimum),
        "v_max3_i32": ("i32", "i32 i32 i32", lambda x, y, z: np.maximum(np.maximum(x, y), z)),
        "v_min3_i32": ("i32", "i32 i32 i32", lambda x, y, z: np.minimum(np.minimum(x, y), z)),
        "v_max3_u32": ("u32", "u32 u32 u32", lambda x, y, z: np.maximum(np.maximum(x, y), z)),
        "v_min3_u32": ("u32", "u32 u32 u32", lambda x, y, z: np.minimum(np.minimum(x, y), z)),
        "v_max3_i16": ("i16", "i16 i16 i16", lambda x, y, z: np.maximum(np.maximum(x, y), z)),
        "v_min3_i16": ("i16", "i16 i16 i16", lambda x, y, z: np.minimum(np.minimum(x, y), z)),
        "v_max3_u16": ("u16", "u16 u16 u16", lambda x, y, z: np.maximum(np.maximum(x, y), z)),
        "v_min3_u16": ("u16", "u16 u16 u16", lambda x, y, z: np.minimum(np.minimum(x, y), z)),
        "v_med3_i32": ("i32", "i32 i32 i32", median),
        "v_med3_u32": ("u32", "u32 u32 u32", median),
        "v_med3_i16": ("i16", "i16 i16 i16", median),
        "v_med3_u16": ("u16", "u16 u16 u16", median),
        "v_mul_lo_u32": ("u32", "u32 u32", np.multiply),
        "v_mul_hi_u32": ("u32", "u32 u32", lambda x, y: times(x, y, U64, 32)),
        "v_mul_hi_i32": ("u32", "i32 i32", lambda x, y: times(x, y, I64, 32)),
        "v_mul_u32_u24": ("u32", "u32 u32", lambda x, y: low24(x) * low24(y)),
        "v_mul_i32_i24": ("u32", "u32 u32", lambda x, y: (signed24(x) * signed24(y)).astype(U32)),
        "v_mul_hi_i32_i24": ("u32", "u32 u32", lambda x, y: (signed24(x) * signed24(y) >> I64(32)).astype(U32)),
        "v_mul_hi_u32_u24": ("u32", "u32 u32", lambda x, y: times(low24(x), low24(y), U64, 32)),
        "v_mad_u32_u24": ("u32", "u32 u32 u32", lambda x, y, z: low24(x) * low24(y) + z),
        "v_mad_i32_i24": ("u32", "u32 u32 u32", lambda x, y, z: (signed24(x) * signed24(y)).astype(U32) + z),
        "v_add3_u32": ("u32", "u32 u32 u32", lambda x, y, z: x + y + z),
        "v_xad_u32": ("u32", "u32 u32 u32", lambda x, y, z: (x ^ y) + z),
        "v_lshl_add_u32": ("u32", "u32 u32 u32", lambda x, y, z: (x << (y & L5)) + z),
        "v_add_lshl_u32": ("u32", "u32 u32 u32", lambda x, y, z: (x + y) << (z & L5)),
        "v_lshl_or_b32": ("u32", "u32 u32 u32", lambda x, y, z: (x << (y & L5)) | z),
        "v_and_or_b32": ("u32", "u32 u32 u32", lambda x, y, z: (x & y) | z),
        "v_or3_b32": ("u32", "u32 u32 u32", lambda x, y, z: x | y | z),
        "v_bfi_b32": ("u32", "u32 u32 u32", lambda x, y, z: (x & y) | (~x & z)),
        "v_bfe_u32": ("u32", "u32 u32 u32", field(False)),
        "v_bfe_i32": ("u32", "u32 u32 u32", field(True)),
        "v_bfm_b32": ("u32", "u32 u32", lambda x, y: ((U32(1) << (x & L5)) - U32(1)) << (y & L5)),
        "v_perm_b32": ("u32", "u32 u32 u32", permute_bytes),
        "v_alignbit_b32": ("u32", "u32 u32 u32", align(False)),
        "v_alignbyte_b32": ("u32", "u32 u32 u32", align(True)),
        "v_sad_u32": ("u32", "u32 u32 u32", sad),
        "v_bcnt_u32_b32": ("u32", "u32 u32", count_bits),
        "v_bfrev_b32": ("u32", "u32", reverse_bits),
        "v_ffbh_u32": ("i32", "u32", lambda x: leading_zeros(x).astype(I32)),
        "v_ffbl_b32": ("i32", "u32", lambda x: trailing_zeros(x).astype(I32)),
        "v_ffbh_i32": ("i32", "u32", lambda x: sign_run(x).astype(I32)),
        "v_mov_b32": ("u32", "u32", lambda x: x),
        "v_mov_b64": ("u64", "u64", lambda x: x),
        "v_accvgpr_read_b32": ("u32", "u32", lambda x: x),
        "v_accvgpr_write_b32": ("u32", "u32", lambda x: x),
        "v_accvgpr_mov_b32": ("u32", "u32", lambda x: x),
        "v_accvgpr_read": ("u32", "u32", lambda x: x),
        "v_accvgpr_write": ("u32", "u32", lambda x: x),
        "v_lshlrev_b64": ("u64", "u32 u64", lambda n, x: x << (n & U32(63)).astype(U64)),
        "v_lshrrev_b64": ("u64", "u32 u64", lambda n, x: x >> (n & U32(63)).astype(U64)),
        "v_ashrrev_i64": ("i64", "u32 i64", lambda n, x: x >> (n & U32(63)).astype(I64)),
        "v_lshl_add_u64": ("u64", "u64 u32 u64", lambda x, n, z: (x << shift_to_4(n)) + z),
    }
)


@op("v_bitop3_b32", "v_bitop3_b16")
def any_function(d: Decoder) -> Step:
    """Any bitwise function of three sources: bit (4a + 2b + c) of the table is the result."""
    kind = "u16" if d.name.endswith("b16") else "u32"
    truth = int(d.modifier("bitop3", "0"), 0)
    get, _ = sources(d, [kind] * 3, [1, 2, 3])
    put = destination(d, kind)

    def run(g: Group) -> None:
        a, b, c = (f(g) for f in get)
        out = None
        for i in range(8):
            if truth >> i & 1:
                term = (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
                out = term if out is None else out | term
        put(g, np.zeros(1, a.dtype) if out is None else out)

    return run


@op("v_mad_u64_u32", "v_mad_i64_i32")
def mad64(d: Decoder) -> Step:
    """64-bit sum of a 32-bit product and a 64-bit addend."""
    kind, wide = ("i32", I64) if d.name.endswith("i32") else ("u32", U64)
    a, b, c = d.source(2, kind), d.source(3, kind), d.source(4, "u64")
    low = d.vector(0, 2)
    carry = d.scalar(1, 2)

    def run(g: Group) -> None:
        product = (a(g).astype(wide) * b(g).astype(wide)).astype(U64)
        addend = c(g)
        total = np.broadcast_to(product + addend, (g.size, 64))
        store(g, low, (total & U64(0xFFFFFFFF)).astype(U32))
        store(g, low + 1, (total >> U64(32)).astype(U32))
        bit = total < product
        if wide is I64:  # the sign of the sum in 65 bits
            signs = [np.broadcast_to(v, total.shape).view(I64) < 0 for v in (product, addend, total)]
            bit = np.where(signs[0] == signs[1], signs[0], signs[2])
        g.put_mask(carry, bit & g.exec)

    return run


def carry_builder(name: str):
    """v_add_co_u32 and its relatives: carry out to a mask, carry in from one."""
    reverse, subtract, with_carry = "rev" in name, "sub" in name, "addc" in name or "subb" in name

    def build(d: Decoder) -> Step:
        if d.encoding not in ("e32", "e64"):
            raise d.ins.refuse(d.encoding)
        index, out = d.vector(0, 1), d.scalar(1, 2)
        a, b = d.source(2, "u32"), d.source(3, "u32")
        carry = d.scalar(4, 2, write=False) if with_carry else None
        if reverse:
            a, b = b, a
        sign = I64(-1 if subtract else 1)

        def run(g: Group) -> None:
            total = a(g).astype(I64) + sign * b(g).astype(I64)
            if carry is not None:
                total = total + sign * g.mask(carry)
            total = np.broadcast_to(total, (g.size, 64))
            flags = ((total < 0) | (total > 0xFFFFFFFF)) & g.exec
            store(g, index, total.astype(U32))
            g.put_mask(out, flags)

        return run

    return build


for _name in ("v_add_co_u32", "v_sub_co_u32", "v_subrev_co_u32", "v_addc_co_u32", "v_subb_co_u32", "v_subbrev_co_u32"):
    op(_name)(carry_builder(_name))
