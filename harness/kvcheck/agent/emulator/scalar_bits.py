"""Scalar bit counting, packing and other one-source operations."""

from __future__ import annotations

import numpy as np

from .decoder import Decoder, Step, op
from .scalar import set_scc, source, writer
from .state import Group

U32, U64, I32 = np.uint32, np.uint64, np.int32


def popcount(x: np.ndarray) -> np.ndarray:
    """Number of set bits of each element of an unsigned array, as int64."""
    x = np.ascontiguousarray(x)
    return np.unpackbits(x.view(np.uint8).reshape(*x.shape, x.itemsize), axis=-1).sum(-1, dtype=np.int64)


def reverse_bits(x: np.ndarray) -> np.ndarray:
    """Bits of each uint32 in reverse order."""
    x = np.asarray(x, U32)
    for n, m in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        x = ((x >> U32(n)) & U32(m)) | ((x & U32(m)) << U32(n))
    return (x >> U32(16)) | (x << U32(16))


def leading_zeros(x: np.ndarray) -> np.ndarray:
    """Zeros above the highest set bit of each uint32, as int64; -1 for 0."""
    _, exponent = np.frexp(np.asarray(x).astype(np.float64))
    return np.where(np.asarray(x) == 0, -1, 32 - exponent)


def trailing_zeros(x: np.ndarray) -> np.ndarray:
    """Zeros below the lowest set bit of each unsigned value, as int64; -1 for 0."""
    x = np.asarray(x)
    low = x & (~x + x.dtype.type(1))
    _, exponent = np.frexp(low.astype(np.float64))
    return np.where(x == 0, -1, exponent - 1)


def sign_run(x: np.ndarray) -> np.ndarray:
    """Bits equal to the sign bit before the first different one, of each int32; -1 when all are equal (the rule of ffbh_i32 and
    flbit_i32)."""
    x = np.asarray(x).view(I32)
    return leading_zeros(np.where(x < 0, ~x, x).view(U32))


@op("s_brev_b32")
def brev(d: Decoder) -> Step:
    """Reverses the bits."""
    put, get = writer(d, 0, False), source(d, 1, "u32")
    return lambda g: put(g, reverse_bits(get(g)))


@op("s_bcnt1_i32_b32", "s_bcnt1_i32_b64", "s_bcnt0_i32_b32", "s_bcnt0_i32_b64")
def count(d: Decoder) -> Step:
    """Counts ones or zeros."""
    kind = "u64" if d.name.endswith("64") else "u32"
    put, get, zeros = writer(d, 0, False), source(d, 1, kind), "bcnt0" in d.name
    set_scc(d)

    def run(g: Group) -> None:
        x = np.broadcast_to(get(g), g.size)
        n = popcount(~x if zeros else x)
        put(g, n.astype(U32))
        g.scc = n != 0

    return run


@op("s_ff1_i32_b32", "s_ff1_i32_b64", "s_flbit_i32_b32", "s_flbit_i32")
def find(d: Decoder) -> Step:
    """Position of the first one, or the length of the leading run."""
    put, get = writer(d, 0, False), source(d, 1, "u64" if d.name.endswith("64") else "u32")
    fn = trailing_zeros if "ff1" in d.name else sign_run if d.name == "s_flbit_i32" else leading_zeros
    return lambda g: put(g, fn(get(g)).astype(I32).view(U32))


@op("s_abs_i32", "s_sext_i32_i8", "s_sext_i32_i16")
def signed_one(d: Decoder) -> Step:
    """Absolute value and sign extension."""
    put, get, name = writer(d, 0, False), source(d, 1, "u32"), d.name
    if name == "s_abs_i32":
        set_scc(d)

        def run(g: Group) -> None:
            value = np.abs(get(g).view(I32).astype(np.int64)).astype(U32)
            put(g, value)
            g.scc = np.broadcast_to(value != 0, g.size).copy()

        return run
    dtype = np.int8 if name.endswith("i8") else np.int16
    return lambda g: put(g, get(g).astype(dtype).astype(I32).view(U32))


@op("s_pack_ll_b32_b16", "s_pack_lh_b32_b16", "s_pack_hh_b32_b16")
def pack(d: Decoder) -> Step:
    """Halves of two sources side by side."""
    put, a, b = writer(d, 0, False), source(d, 1, "u32"), source(d, 2, "u32")
    low, high = (U32(16 if c == "h" else 0) for c in d.name[7:9])
    return lambda g: put(g, ((a(g) >> low) & U32(0xFFFF)) | ((b(g) >> high) << U32(16)))


@op("s_bfm_b32", "s_bfm_b64")
def mask(d: Decoder) -> Step:
    """A run of ones."""
    wide = d.name.endswith("64")
    put, n, at = writer(d, 0, wide), source(d, 1, "u32"), source(d, 2, "u32")
    dtype, low = (U64, U32(63)) if wide else (U32, U32(31))
    return lambda g: put(g, ((dtype(1) << (n(g) & low).astype(dtype)) - dtype(1)) << (at(g) & low).astype(dtype))


@op("s_bitset0_b32", "s_bitset1_b32")
def bit_set(d: Decoder) -> Step:
    """Sets or clears one bit."""
    put, old, n, one = writer(d, 0, False), source(d, 0, "u32"), source(d, 1, "u32"), "set1" in d.name

    def run(g: Group) -> None:
        bit = U32(1) << (n(g) & U32(31))
        put(g, old(g) | bit if one else old(g) & ~bit)

    return run
