"""Instructions on two values at once, with every selection of halves, and multiply-adds of mixed precision."""

from __future__ import annotations

import numpy as np
import pytest

from . import exact, opcodes

F16, F32, F64 = np.float16, np.float32, np.float64


def glue(low, high):
    """Two columns as one of a packed kind."""
    a, b = (np.ascontiguousarray(v).view(f"u{v.itemsize}").astype(np.uint64) for v in (low, high))
    return (a | b << np.uint64(8 * low.itemsize)).astype("u8" if low.itemsize == 4 else "u4")


def rounded(fn, dtype):
    return lambda *x: fn(*(v.astype(F64) for v in x)).astype(dtype)


def whole(fn, bits=16):
    """A formula on Python integers."""

    def run(*columns):
        return np.array([fn(*(int(v) for v in row)) & ((1 << bits) - 1) for row in zip(*columns, strict=True)], np.uint16)

    return run


def signed(x):
    return x.view(np.int16)


HALF = {
    "v_pk_add_f16": (2, rounded(np.add, F16)),
    "v_pk_mul_f16": (2, rounded(np.multiply, F16)),
    "v_pk_fma_f16": (3, exact.fused("f16")),
    "v_pk_max_f16": (2, exact.larger),
    "v_pk_min_f16": (2, exact.smaller),
    "v_pk_maximum3_f16": (3, lambda x, y, z: exact.ieee(exact.larger)(exact.ieee(exact.larger)(x, y), z)),
    "v_pk_minimum3_f16": (3, lambda x, y, z: exact.ieee(exact.smaller)(exact.ieee(exact.smaller)(x, y), z)),
}
SINGLE = {
    "v_pk_add_f32": (2, rounded(np.add, F32)),
    "v_pk_mul_f32": (2, rounded(np.multiply, F32)),
    "v_pk_fma_f32": (3, exact.fused("f32")),
}
INTEGER = {
    "v_pk_add_u16": (2, whole(lambda x, y: x + y)),
    "v_pk_sub_u16": (2, whole(lambda x, y: x - y)),
    "v_pk_add_i16": (2, whole(lambda x, y: x + y)),
    "v_pk_sub_i16": (2, whole(lambda x, y: x - y)),
    "v_pk_mul_lo_u16": (2, whole(lambda x, y: x * y)),
    "v_pk_mad_u16": (3, whole(lambda x, y, z: x * y + z)),
    "v_pk_mad_i16": (3, whole(lambda x, y, z: x * y + z)),
    "v_pk_max_u16": (2, whole(max)),
    "v_pk_min_u16": (2, whole(min)),
    "v_pk_max_i16": (2, lambda x, y: whole(max)(signed(x), signed(y))),
    "v_pk_min_i16": (2, lambda x, y: whole(min)(signed(x), signed(y))),
    "v_pk_lshlrev_b16": (2, whole(lambda n, x: x << (n & 15))),
    "v_pk_lshrrev_b16": (2, whole(lambda n, x: x >> (n & 15))),
    "v_pk_ashrrev_i16": (2, lambda n, x: whole(lambda a, b: b >> (a & 15))(n, signed(x))),
}
KIND = dict.fromkeys(HALF, "2f16") | dict.fromkeys(SINGLE, "2f32") | dict.fromkeys(INTEGER, "2u16")
TABLE = HALF | SINGLE | INTEGER
SELECTIONS = [((0, 0, 0), (1, 1, 1), (0, 0, 0), (0, 0, 0)), ((1, 0, 1), (0, 1, 0), (1, 0, 1), (0, 1, 1))]


@pytest.mark.parametrize("mnemonic", TABLE)
@pytest.mark.parametrize("selection", SELECTIONS, ids=["straight", "crossed"])
def test_packed(mnemonic, selection):
    n, fn = TABLE[mnemonic]
    kind = KIND[mnemonic]
    low, high, neg_low, neg_high = (s[:n] for s in selection)
    floats = kind != "2u16"

    def formula(*columns):
        parts = [opcodes.halves(c, kind) for c in columns]
        sides = []
        for chosen, negated in ((low, neg_low), (high, neg_high)):
            values = [parts[i][chosen[i]] for i in range(n)]
            values = [-v if floats and negated[i] else v for i, v in enumerate(values)]
            sides.append(fn(*(np.ascontiguousarray(v) for v in values)))
        return glue(*sides)

    text = f"{mnemonic} {{d}}, " + ", ".join("{" + c + "}" for c in "abc"[:n])
    words = {"op_sel": low, "op_sel_hi": high} | ({"neg_lo": neg_low, "neg_hi": neg_high} if floats else {})
    if selection is not SELECTIONS[0]:
        text += "".join(f" {k}:[{','.join(map(str, v))}]" for k, v in words.items())
    opcodes.check(text, kind, " ".join([kind] * n), formula)


@pytest.mark.parametrize("mnemonic", ["v_pk_mov_b32"])
@pytest.mark.parametrize("low", [0, 1])
@pytest.mark.parametrize("high", [0, 1])
def test_packed_move(mnemonic, low, high):
    def formula(a, b):
        words = [np.ascontiguousarray(v).view(np.uint32).reshape(-1, 2) for v in (a, b)]
        return glue(np.ascontiguousarray(words[0][:, low]), np.ascontiguousarray(words[1][:, high]))

    opcodes.check(f"{mnemonic} {{d}}, {{a}}, {{b}} op_sel:[{low},{high}]", "u64", "u64 u64", formula)


MIXES = [((0, 0, 0), (0, 0, 0)), ((0, 1, 0), (1, 1, 0)), ((1, 0, 0), (1, 0, 1))]


@pytest.mark.parametrize("mnemonic", ["v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16"])
@pytest.mark.parametrize("mix", MIXES, ids=["single", "two halves", "one single"])
def test_mixed_precision(mnemonic, mix):
    select, half = mix
    edges = {"u32": np.concatenate([opcodes.EDGES["f32"].view(np.uint32)[[1, 3, 6, 7, 10, 12]], opcodes.EDGES["2f16"][2:9]])}

    def formula(*columns):
        values = [opcodes.halves(c, "2f16")[select[i]].astype(F32) if half[i] else c.view(F32) for i, c in enumerate(columns)]
        total = exact.fused("f32")(*values)
        if mnemonic == "v_fma_mix_f32":
            return total.view(np.uint32)
        small = total.astype(F16).view(np.uint16).astype(np.uint32)
        keep = opcodes.OLD & np.uint32(0xFFFF0000 if mnemonic == "v_fma_mixlo_f16" else 0xFFFF)
        return keep | (small if mnemonic == "v_fma_mixlo_f16" else small << np.uint32(16))

    def quiet(*columns):  # a NaN's payload is not modelled: only rows without one
        return (
            ~np.isnan(opcodes.halves(formula(*columns), "2f16")[1 if "hi" in mnemonic else 0])
            if "16" in mnemonic
            else ~np.isnan(formula(*columns).view(F32))
        )

    columns = opcodes.columns(["u32"] * 3, edges)
    with np.errstate(all="ignore"):
        chosen = [c[quiet(*columns)] for c in columns]
    text = f"{mnemonic} {{d}}, {{a}}, {{b}}, {{c}} op_sel:[{','.join(map(str, select))}] op_sel_hi:[{','.join(map(str, half))}]"
    opcodes.check(text, "u32", "u32 u32 u32", formula, values=chosen)
