"""Scalar ALU: moves, arithmetic, logic, comparisons, EXEC updates. All values are [wave] arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .decoder import Decoder, Step, op
from .operands import Getter
from .state import EXEC, Group

U32, U64, I32, I64 = np.uint32, np.uint64, np.int32, np.int64


def source(d: Decoder, i: int, kind: str) -> Getter:
    """A reader of a scalar operand as a [wave] array or a constant."""
    operand = d.operand(i)
    if operand.kind == "v":
        raise d.ins.refuse(f"operand {d.ins.operands[i]!r} is not scalar")
    get = d.source(i, kind)
    if operand.kind == "c":
        return get
    return lambda g: get(g)[:, 0]


def writer(d: Decoder, i: int, wide: bool) -> Callable[[Group, np.ndarray], None]:
    """A writer of uint32 or uint64 values to a scalar operand."""
    index = d.scalar(i, 2 if wide else 1)
    if wide:
        return lambda g, value: g.put_s64(index, value)
    if index >= EXEC:

        def put(g: Group, value: np.ndarray) -> None:
            g.S[index] = value
            g.refresh()

        return put

    def plain(g: Group, value: np.ndarray) -> None:
        g.S[index] = value

    return plain


def set_scc(d: Decoder) -> None:
    """Notes that the instruction writes SCC."""
    d.note_write("scc", 0, 1)


@op("s_mov_b32", "s_mov_b64", "s_cmov_b32", "s_cmov_b64")
def move(d: Decoder) -> Step:
    """s_mov and the conditional s_cmov."""
    wide = d.name.endswith("64")
    put, get = writer(d, 0, wide), source(d, 1, "u64" if wide else "u32")
    if "cmov" not in d.name:
        return lambda g: put(g, get(g))
    old = source(d, 0, "u64" if wide else "u32")
    return lambda g: put(g, np.where(g.scc, get(g), old(g)))


def literal16(d: Decoder, i: int) -> int:
    """A 16-bit immediate, sign-extended."""
    value = int(d.operand(i).value) & 0xFFFF
    return value - 0x10000 if value & 0x8000 else value


@op("s_movk_i32", "s_addk_i32", "s_mulk_i32", "s_cmovk_i32")
def immediate(d: Decoder) -> Step:
    """Instructions with a 16-bit immediate in place of a source."""
    put, value = writer(d, 0, False), literal16(d, 1)
    bits, name = U32(value & 0xFFFFFFFF), d.name
    if name == "s_movk_i32":
        return lambda g: put(g, np.full(g.size, bits, U32))
    old = source(d, 0, "i32")
    if name == "s_mulk_i32":
        return lambda g: put(g, (old(g).astype(I64) * value).astype(U32))
    if name == "s_cmovk_i32":
        return lambda g: put(g, np.where(g.scc, bits, old(g).view(U32)))
    set_scc(d)

    def add(g: Group) -> None:
        total = old(g).astype(I64) + value
        put(g, total.astype(U32))
        g.scc = total != total.astype(I32)

    return add


LOGIC = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "andn2": lambda x, y: x & ~y,
    "orn2": lambda x, y: x | ~y,
    "nand": lambda x, y: ~(x & y),
    "nor": lambda x, y: ~(x | y),
    "xnor": lambda x, y: ~(x ^ y),
}


@op(*(f"s_{name}_b{b}" for name in LOGIC for b in (32, 64)))
def logic(d: Decoder) -> Step:
    """Bitwise operations; SCC says whether the result is not zero."""
    wide, fn = d.name.endswith("64"), LOGIC[d.name[2:-4]]
    kind = "u64" if wide else "u32"
    put, a, b = writer(d, 0, wide), source(d, 1, kind), source(d, 2, kind)
    set_scc(d)

    def run(g: Group) -> None:
        value = fn(a(g), b(g))
        put(g, value)
        g.scc = np.broadcast_to(value != 0, g.size).copy()

    return run


@op(*(f"s_{name}_saveexec_b64" for name in ("and", "or", "xor", "andn1", "andn2", "orn1", "orn2")))
def saveexec(d: Decoder) -> Step:
    """Saves EXEC and combines it with a mask."""
    fn = {
        "and": lambda x, e: x & e,
        "or": lambda x, e: x | e,
        "xor": lambda x, e: x ^ e,
        "andn2": lambda x, e: x & ~e,
        "andn1": lambda x, e: ~x & e,
        "orn2": lambda x, e: x | ~e,
        "orn1": lambda x, e: ~x | e,
    }[d.name[2:].split("_")[0]]
    put, get = writer(d, 0, True), source(d, 1, "u64")
    d.note_write("s", EXEC, 2)
    set_scc(d)

    def run(g: Group) -> None:
        saved = g.s64(EXEC)
        value = fn(get(g), saved)
        put(g, saved)
        g.put_s64(EXEC, value)
        g.scc = value != 0

    return run


@op("s_not_b32", "s_not_b64")
def unary_logic(d: Decoder) -> Step:
    """s_not."""
    wide = d.name.endswith("64")
    put, get = writer(d, 0, wide), source(d, 1, "u64" if wide else "u32")
    set_scc(d)

    def run(g: Group) -> None:
        value = ~get(g)
        put(g, value)
        g.scc = np.broadcast_to(value != 0, g.size).copy()

    return run


@op("s_add_u32", "s_add_i32", "s_addc_u32", "s_sub_u32", "s_sub_i32", "s_subb_u32")
def add(d: Decoder) -> Step:
    """Additions and subtractions with carry or overflow in SCC."""
    signed, kind = d.name.endswith("i32"), "i32" if d.name.endswith("i32") else "u32"
    put, a, b = writer(d, 0, False), source(d, 1, kind), source(d, 2, kind)
    sign = -1 if "sub" in d.name else 1
    carry = "addc" in d.name or "subb" in d.name
    if carry:
        d.reads.add(("scc", 0))
    set_scc(d)

    def run(g: Group) -> None:
        total = np.asarray(a(g)).astype(I64) + sign * np.asarray(b(g)).astype(I64)
        if carry:
            total = total + sign * g.scc.astype(I64)
        put(g, total.astype(U32))
        bad = total != total.astype(I32) if signed else (total < 0) | (total > 0xFFFFFFFF)
        g.scc = np.broadcast_to(bad, g.size).copy()

    return run


@op("s_mul_i32", "s_mul_hi_u32", "s_mul_hi_i32")
def multiply(d: Decoder) -> Step:
    """Low and high halves of products."""
    kind = "u32" if d.name.endswith("u32") else "i32"
    wide = U64 if kind == "u32" else I64
    put, a, b = writer(d, 0, False), source(d, 1, kind), source(d, 2, kind)
    shift = wide(32 if "hi" in d.name else 0)
    return lambda g: put(g, (np.asarray(a(g)).astype(wide) * np.asarray(b(g)).astype(wide) >> shift).astype(U32))


@op("s_min_i32", "s_min_u32", "s_max_i32", "s_max_u32")
def extreme(d: Decoder) -> Step:
    """Minimum and maximum; SCC says whether the first source was taken."""
    kind = d.name[-3:]
    put, a, b = writer(d, 0, False), source(d, 1, kind), source(d, 2, kind)
    fn, first = (np.minimum, np.less) if "min" in d.name else (np.maximum, np.greater_equal)
    set_scc(d)

    def run(g: Group) -> None:
        x, y = a(g), b(g)
        put(g, fn(x, y).view(U32))
        g.scc = np.broadcast_to(first(x, y), g.size).copy()

    return run


@op("s_lshl_b32", "s_lshl_b64", "s_lshr_b32", "s_lshr_b64", "s_ashr_i32", "s_ashr_i64")
def shift(d: Decoder) -> Step:
    """Shifts; the amount is taken modulo the width."""
    wide = d.name.endswith("64")
    kind = ("i" if "ashr" in d.name else "u") + ("64" if wide else "32")
    put, a, n = writer(d, 0, wide), source(d, 1, kind), source(d, 2, "u32")
    fn = np.left_shift if "lshl" in d.name else np.right_shift
    dtype = {"i32": I32, "u32": U32, "i64": I64, "u64": U64}[kind]
    low = U32(63 if wide else 31)
    set_scc(d)

    def run(g: Group) -> None:
        value = fn(a(g), (n(g) & low).astype(dtype)).view(U64 if wide else U32)
        put(g, value)
        g.scc = np.broadcast_to(value != 0, g.size).copy()

    return run


@op("s_lshl1_add_u32", "s_lshl2_add_u32", "s_lshl3_add_u32", "s_lshl4_add_u32")
def shift_add(d: Decoder) -> Step:
    """Shift left by 1 to 4 and add; SCC is the carry."""
    put, a, b, n = writer(d, 0, False), source(d, 1, "u32"), source(d, 2, "u32"), U64(int(d.name[6]))
    set_scc(d)

    def run(g: Group) -> None:
        total = (np.asarray(a(g)).astype(U64) << n) + np.asarray(b(g)).astype(U64)
        put(g, total.astype(U32))
        g.scc = np.broadcast_to(total > U64(0xFFFFFFFF), g.size).copy()

    return run


@op("s_bfe_u32", "s_bfe_i32", "s_bfe_u64", "s_bfe_i64")
def field(d: Decoder) -> Step:
    """Bit field: offset in bits 4:0 of the second source, width in 22:16."""
    wide, signed = d.name.endswith("64"), d.name[6] == "i"
    put, a, b = writer(d, 0, wide), source(d, 1, "u64" if wide else "u32"), source(d, 2, "u32")
    set_scc(d)

    def run(g: Group) -> None:
        control = np.asarray(b(g)).astype(U64)
        offset, width = control & U64(63 if wide else 31), (control >> U64(16)) & U64(127)
        value = np.asarray(a(g)).astype(U64) >> offset
        width = np.minimum(width, U64(64 if wide else 32))
        value = np.where(width >= U64(64), value, value & ((U64(1) << np.minimum(width, U64(63))) - U64(1)))
        if signed:
            top = np.where(width > 0, U64(1) << (np.maximum(width, U64(1)) - U64(1)), U64(0))
            value = (value ^ top) - top
        value = value if wide else value.astype(U32)
        put(g, value)
        g.scc = np.broadcast_to(value != 0, g.size).copy()

    return run
