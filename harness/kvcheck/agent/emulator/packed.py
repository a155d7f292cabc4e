"""Packed instructions: two f32 in a register pair, or two 16-bit values in a register, with op_sel, op_sel_hi, neg_lo and neg_hi."""

from __future__ import annotations

import numpy as np

from .decoder import Decoder, Step, op
from .fused import fma, fma16
from .operands import bits, to_kind
from .state import Group
from .vector import store
from .vector_float import f32max, f32min, maximum, minimum

U32, F16, F32 = np.uint32, np.float16, np.float32


def choices(d: Decoder, n: int) -> tuple[list[int], list[int], list[int], list[int]]:
    """op_sel, op_sel_hi, neg_lo and neg_hi of n sources."""

    def read(name: str, default: int) -> list[int]:
        text = d.modifier(name)
        return [int(t) for t in text.strip("[]").split(",")] if text else [default] * n

    return read("op_sel", 0), read("op_sel_hi", 1), read("neg_lo", 0), read("neg_hi", 0)


def word(d: Decoder, place: int, half: int):
    """The half'th 32 bits of an operand of 64; a constant is the same in both."""
    operand = d.operand(place)
    i = operand.index + half
    if operand.kind in ("v", "s"):
        d.reads.add((operand.kind, i))  # this half alone: the compiler leaves the other one unset where nothing selects it
        return (lambda g: g.V[i]) if operand.kind == "v" else (lambda g: g.S[i][:, None])
    constant = U32(bits(operand.value, "u32"))
    return lambda g: constant


FUNCTIONS = {"add": np.add, "mul": np.multiply, "fma": fma}


@op("v_pk_add_f32", "v_pk_mul_f32", "v_pk_fma_f32")
def packed_f32(d: Decoder) -> Step:
    """Two float32 operations on register pairs."""
    n = 3 if "fma" in d.name else 2
    fn = FUNCTIONS[d.name[5:8]]
    low, high, neg_low, neg_high = choices(d, n)
    parts = []
    for select, negative in ((low, neg_low), (high, neg_high)):
        get = []
        for i in range(n):
            raw = word(d, 1 + i, select[i])
            get.append(_negated(raw) if negative[i] else raw)
        parts.append(get)
    index = d.vector(0, 2)

    def run(g: Group) -> None:
        results = [np.asarray(fn(*(x(g).view(F32) for x in get))).view(U32) for get in parts]
        store(g, index, results[0])
        store(g, index + 1, results[1])

    return run


def _negated(raw):
    return lambda g: raw(g) ^ U32(0x80000000)


@op("v_pk_mov_b32")
def packed_move(d: Decoder) -> Step:
    """Two words picked from two register pairs."""
    select, _, _, _ = choices(d, 2)
    low, high = word(d, 1, select[0]), word(d, 2, select[1])
    index = d.vector(0, 2)

    def run(g: Group) -> None:
        a, b = np.array(low(g)), np.array(high(g))  # copies: the destination may be one of them
        store(g, index, a)
        store(g, index + 1, b)

    return run


def half16(fn):
    """A float16 function computed in float32 and rounded."""
    return lambda *x: np.asarray(fn(*(v.astype(F32) for v in x))).astype(F16)


HALVES = {
    "v_pk_add_f16": ("f16", 2, half16(np.add)),
    "v_pk_mul_f16": ("f16", 2, half16(np.multiply)),
    "v_pk_fma_f16": ("f16", 3, fma16),
    "v_pk_max_f16": ("f16", 2, f32max),
    "v_pk_min_f16": ("f16", 2, f32min),
    "v_pk_maximum3_f16": ("f16", 3, lambda x, y, z: maximum(maximum(x, y), z)),
    "v_pk_minimum3_f16": ("f16", 3, lambda x, y, z: minimum(minimum(x, y), z)),
    "v_pk_add_u16": ("u16", 2, np.add),
    "v_pk_sub_u16": ("u16", 2, np.subtract),
    "v_pk_add_i16": ("u16", 2, np.add),
    "v_pk_sub_i16": ("u16", 2, np.subtract),
    "v_pk_mul_lo_u16": ("u16", 2, np.multiply),
    "v_pk_mad_u16": ("u16", 3, lambda x, y, z: x * y + z),
    "v_pk_mad_i16": ("u16", 3, lambda x, y, z: x * y + z),
    "v_pk_max_i16": ("i16", 2, np.maximum),
    "v_pk_min_i16": ("i16", 2, np.minimum),
    "v_pk_max_u16": ("u16", 2, np.maximum),
    "v_pk_min_u16": ("u16", 2, np.minimum),
    "v_pk_lshlrev_b16": ("u16", 2, lambda n, x: x << (n & np.uint16(15))),
    "v_pk_lshrrev_b16": ("u16", 2, lambda n, x: x >> (n & np.uint16(15))),
    "v_pk_ashrrev_i16": ("i16", 2, lambda n, x: x >> (n & np.int16(15))),
}


@op(*HALVES)
def packed_16(d: Decoder) -> Step:
    """Two 16-bit operations on the halves of registers."""
    kind, n, fn = HALVES[d.name]
    low, high, neg_low, neg_high = choices(d, n)
    if "clamp" in d.modifiers:
        raise d.ins.refuse("clamp")

    def part(place: int, chosen: int, negative: int):
        operand = d.operand(place)
        if operand.kind == "c":
            pattern = U32(
                bits(operand.value, kind) if not chosen or isinstance(operand.value, float) else (int(operand.value) >> 16) & 0xFFFF
            )
            if isinstance(operand.value, float) and chosen:
                pattern = U32(0)
            raw = lambda g: pattern  # noqa: E731
        else:
            whole = d.raw(place)
            raw = (lambda g: whole(g) >> U32(16)) if chosen else whole
        get = to_kind(raw, kind)
        return (lambda g: (get(g).view(np.uint16) ^ np.uint16(0x8000)).view(F16)) if negative else get

    sides = [[part(1 + i, s[i], m[i]) for i in range(n)] for s, m in ((low, neg_low), (high, neg_high))]
    index = d.vector(0, 1)

    def run(g: Group) -> None:
        first, second = (np.asarray(fn(*(x(g) for x in side))).view(np.uint16).astype(U32) for side in sides)
        store(g, index, first | (second << U32(16)))

    return run


@op("v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16")
def mixed(d: Decoder) -> Step:
    """Fused multiply-add whose sources are f32, or a half of a register as f16 where op_sel_hi is set."""

    def read(name: str) -> list[int]:
        text = d.modifier(name)
        return [int(t) for t in text.strip("[]").split(",")] if text else [0, 0, 0]

    select, is_half = read("op_sel"), read("op_sel_hi")
    get = []
    for i in range(3):
        operand = d.operand(1 + i)
        if not is_half[i]:
            get.append(d.source(1 + i, "f32"))
            continue
        if operand.kind == "c":
            raise d.ins.refuse("a constant as f16")
        raw = d.raw(1 + i)
        part = to_kind((lambda g, raw=raw: raw(g) >> U32(16)) if select[i] else raw, "f16")
        value = lambda g, part=part: part(g).astype(F32)  # noqa: E731
        if operand.absolute:
            value = lambda g, value=value: np.abs(value(g))  # noqa: E731
        if operand.negate:
            value = lambda g, value=value: -value(g)  # noqa: E731
        get.append(value)
    index, kind = d.vector(0, 1), d.name.rsplit("_", 2)[1]
    clamp = d.flag("clamp")
    if kind != "mix":
        d.note_read(d.operand(0), 1)

    def run(g: Group) -> None:
        r = fma(*(f(g) for f in get))
        if clamp:
            r = np.where(np.isnan(r), F32(0), np.clip(r, F32(0), F32(1)))
        if kind == "mix":
            store(g, index, r.view(U32))
            return
        half = r.astype(F16).view(np.uint16).astype(U32)
        keep = (half | (g.V[index] & U32(0xFFFF0000))) if kind == "mixlo" else ((half << U32(16)) | (g.V[index] & U32(0xFFFF)))
        store(g, index, keep)

    return run
