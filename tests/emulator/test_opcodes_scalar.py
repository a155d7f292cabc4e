"""Every scalar instruction over edge values, with SCC, against Python integers."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

from . import asm, opcodes

M32, M64 = (1 << 32) - 1, (1 << 64) - 1
EDGES = (0, 1, 2, 31, 32, 0x7FFFFFFF, 0x80000000, M32, M32 - 1, 0x12345678, 0x00100004, 0xFFFF8000)
EDGES64 = (0, 1, 63, 0x80000000, M32, 1 << 32, 1 << 63, (1 << 63) - 1, M64, 0x123456789ABCDEF0)


def s(x, bits=32):
    return x - (1 << bits) if x >> (bits - 1) & 1 else x


def field(x, control, bits, signed):
    """Bit field: offset in the low bits of the control, width in 22:16."""
    offset, width = control & (bits - 1), min(control >> 16 & 127, bits)
    value = (x >> offset) & ((1 << width) - 1)
    return s(value, width) if signed and width else value


def leading_run(x):
    text = f"{x:032b}"
    return next((i for i in range(32) if text[i] != text[0]), -1)


NONZERO = "nonzero"
LOGIC = {
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "andn2": lambda x, y: x & ~y,
    "orn2": lambda x, y: x | ~y,
    "nand": lambda x, y: ~(x & y),
    "nor": lambda x, y: ~(x | y),
    "xnor": lambda x, y: ~(x ^ y),
}
# mnemonic -> (bits of result, bits of each source, formula, SCC: a formula, NONZERO, or None where it is kept)
TABLE = {f"s_{n}_b{b}": (b, (b, b), f, NONZERO) for n, f in LOGIC.items() for b in (32, 64)}
TABLE |= {
    "s_add_u32": (32, (32, 32), lambda x, y: x + y, lambda x, y: x + y > M32),
    "s_sub_u32": (32, (32, 32), lambda x, y: x - y, lambda x, y: y > x),
    "s_add_i32": (32, (32, 32), lambda x, y: x + y, lambda x, y: not -(2**31) <= s(x) + s(y) < 2**31),
    "s_sub_i32": (32, (32, 32), lambda x, y: x - y, lambda x, y: not -(2**31) <= s(x) - s(y) < 2**31),
    "s_mul_i32": (32, (32, 32), lambda x, y: x * y, None),
    "s_mul_hi_u32": (32, (32, 32), lambda x, y: x * y >> 32, None),
    "s_mul_hi_i32": (32, (32, 32), lambda x, y: s(x) * s(y) >> 32, None),
    "s_min_i32": (32, (32, 32), lambda x, y: min(s(x), s(y)), lambda x, y: s(x) < s(y)),
    "s_max_i32": (32, (32, 32), lambda x, y: max(s(x), s(y)), lambda x, y: s(x) >= s(y)),
    "s_min_u32": (32, (32, 32), min, operator.lt),
    "s_max_u32": (32, (32, 32), max, operator.ge),
    "s_lshl_b32": (32, (32, 32), lambda x, n: x << (n & 31), NONZERO),
    "s_lshr_b32": (32, (32, 32), lambda x, n: x >> (n & 31), NONZERO),
    "s_ashr_i32": (32, (32, 32), lambda x, n: s(x) >> (n & 31), NONZERO),
    "s_lshl_b64": (64, (64, 32), lambda x, n: x << (n & 63), NONZERO),
    "s_lshr_b64": (64, (64, 32), lambda x, n: x >> (n & 63), NONZERO),
    "s_ashr_i64": (64, (64, 32), lambda x, n: s(x, 64) >> (n & 63), NONZERO),
    **{f"s_lshl{k}_add_u32": (32, (32, 32), lambda x, y, k=k: (x << k) + y, lambda x, y, k=k: (x << k) + y > M32) for k in (1, 2, 3, 4)},
    "s_bfe_u32": (32, (32, 32), lambda x, c: field(x, c, 32, False), NONZERO),
    "s_bfe_i32": (32, (32, 32), lambda x, c: field(x, c, 32, True), NONZERO),
    "s_bfe_u64": (64, (64, 32), lambda x, c: field(x, c, 64, False), NONZERO),
    "s_bfe_i64": (64, (64, 32), lambda x, c: field(x, c, 64, True), NONZERO),
    "s_bfm_b32": (32, (32, 32), lambda n, at: ((1 << (n & 31)) - 1) << (at & 31), None),
    "s_bfm_b64": (64, (32, 32), lambda n, at: ((1 << (n & 63)) - 1) << (at & 63), None),
    "s_pack_ll_b32_b16": (32, (32, 32), lambda x, y: x & 0xFFFF | (y & 0xFFFF) << 16, None),
    "s_pack_lh_b32_b16": (32, (32, 32), lambda x, y: x & 0xFFFF | y >> 16 << 16, None),
    "s_pack_hh_b32_b16": (32, (32, 32), lambda x, y: x >> 16 | y >> 16 << 16, None),
    "s_not_b32": (32, (32,), lambda x: ~x, NONZERO),
    "s_not_b64": (64, (64,), lambda x: ~x, NONZERO),
    "s_brev_b32": (32, (32,), lambda x: int(f"{x:032b}"[::-1], 2), None),
    "s_abs_i32": (32, (32,), lambda x: abs(s(x)), NONZERO),
    "s_bcnt1_i32_b32": (32, (32,), int.bit_count, NONZERO),
    "s_bcnt0_i32_b32": (32, (32,), lambda x: 32 - x.bit_count(), NONZERO),
    "s_bcnt1_i32_b64": (32, (64,), int.bit_count, NONZERO),
    "s_bcnt0_i32_b64": (32, (64,), lambda x: 64 - x.bit_count(), NONZERO),
    "s_sext_i32_i8": (32, (32,), lambda x: s(x & 255, 8), None),
    "s_sext_i32_i16": (32, (32,), lambda x: s(x & 0xFFFF, 16), None),
    "s_ff1_i32_b32": (32, (32,), lambda x: f"{x:032b}"[::-1].find("1"), None),
    "s_ff1_i32_b64": (32, (64,), lambda x: f"{x:064b}"[::-1].find("1"), None),
    "s_flbit_i32_b32": (32, (32,), lambda x: f"{x:032b}".find("1"), None),
    "s_flbit_i32": (32, (32,), leading_run, None),
    "s_mov_b32": (32, (32,), lambda x: x, None),
    "s_mov_b64": (64, (64,), lambda x: x, None),
}


def register(i, bits):
    return f"s[{i}:{i + 1}]" if bits == 64 else f"s{i}"


def given(i, value, bits):
    """Scalars of one operand, a wave a row."""
    values = np.array(value, np.uint64)
    low = {i: (values & np.uint64(M32)).astype(np.uint32)}
    return low | ({i + 1: (values >> np.uint64(32)).astype(np.uint32)} if bits == 64 else {})


def result(g, i, bits):
    return [int(v) for v in (g.s64(i) if bits == 64 else g.S[i])]


def execute(line, operands, scc):
    """Runs a line with a wave for each row of its operands: {register: (bits, values)}."""
    opcodes.assemble(line, "gfx942")
    scalars = {k: v for i, (bits, values) in operands.items() for k, v in given(i, values, bits).items()}
    return asm.run(line, scalars=scalars, waves=len(next(iter(operands.values()))[1]), scc=scc)


@pytest.mark.parametrize("mnemonic", TABLE)
@pytest.mark.parametrize("scc", [False, True])
def test_scalar(mnemonic, scc):
    bits, kinds, fn, flag = TABLE[mnemonic]
    rows = list(itertools.product(*(EDGES64 if k == 64 else (*EDGES, 0x00200007, 0x007F003F) for k in kinds)))
    operands = {20 + 2 * i: (k, [r[i] for r in rows]) for i, k in enumerate(kinds)}
    g = execute(f"{mnemonic} {register(40, bits)}, " + ", ".join(register(20 + 2 * i, k) for i, k in enumerate(kinds)), operands, scc)
    for row, got, set_ in zip(rows, result(g, 40, bits), g.scc, strict=True):
        want = fn(*row) & ((1 << bits) - 1)
        assert got == want, [hex(v) for v in row]
        assert bool(set_) == (scc if flag is None else want != 0 if flag == NONZERO else flag(*row)), [hex(v) for v in row]


CARRY = {"s_addc_u32": lambda x, y, c: x + y + c, "s_subb_u32": lambda x, y, c: x - y - c}


@pytest.mark.parametrize("mnemonic", CARRY)
@pytest.mark.parametrize("scc", [False, True])
def test_with_carry(mnemonic, scc):
    rows = list(itertools.product(EDGES, EDGES))
    g = execute(f"{mnemonic} s40, s20, s22", {20: (32, [r[0] for r in rows]), 22: (32, [r[1] for r in rows])}, scc)
    for (x, y), got, carry in zip(rows, result(g, 40, 32), g.scc, strict=True):
        total = CARRY[mnemonic](x, y, int(scc))
        assert (got, bool(carry)) == (total & M32, not 0 <= total <= M32), (x, y)


TESTS = {"eq": operator.eq, "lg": operator.ne, "gt": operator.gt, "ge": operator.ge, "lt": operator.lt, "le": operator.le}
COMPARE = {f"s_cmp_{t}_{k}": (32, fn, k == "i32") for t, fn in TESTS.items() for k in ("i32", "u32")}
COMPARE |= {f"s_cmp_{t}_u64": (64, TESTS[t], False) for t in ("eq", "lg")}
COMPARE |= {f"s_bitcmp{w}_b{b}": (b, lambda x, n, w=w, b=b: (x >> (n & (b - 1)) & 1) == w, False) for w in (0, 1) for b in (32, 64)}


@pytest.mark.parametrize("mnemonic", COMPARE)
def test_into_scc(mnemonic):
    bits, fn, signed = COMPARE[mnemonic]
    edges = EDGES64 if bits == 64 else EDGES
    second = 32 if "bitcmp" in mnemonic else bits
    rows = list(itertools.product(edges, EDGES if second == 32 else edges))
    g = execute(
        f"{mnemonic} {register(20, bits)}, {register(22, second)}",
        {20: (bits, [r[0] for r in rows]), 22: (second, [r[1] for r in rows])},
        False,
    )
    for (x, y), got in zip(rows, g.scc, strict=True):
        assert bool(got) == bool(fn(*((s(x), s(y)) if signed else (x, y)))), (x, y)


IMMEDIATES = (0, 1, 5, 0x7FFF, 0x8000, 0xFFFF, 0xFFFE)
SHORT = {
    "s_movk_i32": (lambda old, k: k, None),
    "s_addk_i32": (lambda old, k: old + k, lambda old, k: not -(2**31) <= s(old) + k < 2**31),
    "s_mulk_i32": (lambda old, k: old * k, None),
}


@pytest.mark.parametrize("mnemonic", SHORT)
def test_sixteen_bit_immediates_are_sign_extended(mnemonic):
    fn, flag = SHORT[mnemonic]
    for k in IMMEDIATES:
        g = execute(f"{mnemonic} s20, {hex(k)}", {20: (32, EDGES)}, False)
        for old, got, set_ in zip(EDGES, result(g, 20, 32), g.scc, strict=True):
            assert got == fn(old, s(k, 16)) & M32
            assert bool(set_) == (False if flag is None else flag(old, s(k, 16)))


@pytest.mark.parametrize("mnemonic", [f"s_cmpk_{t}_{k}" for t in TESTS for k in ("i32", "u32")])
def test_compare_with_an_immediate(mnemonic):
    _, _, test, kind = mnemonic.split("_")
    for k in IMMEDIATES:
        g = execute(f"{mnemonic} s20, {hex(k)}", {20: (32, EDGES)}, False)
        for x, got in zip(EDGES, g.scc, strict=True):
            assert bool(got) == (TESTS[test](s(x), s(k, 16)) if kind == "i32" else TESTS[test](x, k))


CONDITIONAL = {"s_cselect_b32": 32, "s_cselect_b64": 64, "s_cmov_b32": 32, "s_cmov_b64": 64, "s_cmovk_i32": 32}


@pytest.mark.parametrize("mnemonic", CONDITIONAL)
@pytest.mark.parametrize("scc", [False, True])
def test_by_scc(mnemonic, scc):
    bits = CONDITIONAL[mnemonic]
    edges = EDGES64 if bits == 64 else EDGES
    rows = list(itertools.product(edges, edges))
    operands = {20: (bits, [r[0] for r in rows]), 22: (bits, [r[1] for r in rows])}
    if "select" in mnemonic:
        g = execute(f"{mnemonic} {register(40, bits)}, {register(20, bits)}, {register(22, bits)}", operands, scc)
        assert result(g, 40, bits) == [x if scc else y for x, y in rows]
    else:
        source = "0xfffe" if "k" in mnemonic else register(20, bits)
        g = execute(f"{mnemonic} {register(22, bits)}, {source}", operands, scc)
        assert result(g, 22, bits) == [(0xFFFFFFFE if "k" in mnemonic else x) if scc else y for x, y in rows]
    assert (g.scc == scc).all()


@pytest.mark.parametrize("mnemonic", ["s_bitset0_b32", "s_bitset1_b32"])
def test_one_bit(mnemonic):
    rows = list(itertools.product(EDGES, EDGES))
    g = execute(f"{mnemonic} s20, s22", {20: (32, [r[0] for r in rows]), 22: (32, [r[1] for r in rows])}, False)
    for (x, n), got in zip(rows, result(g, 20, 32), strict=True):
        bit = 1 << (n & 31)
        assert got == (x | bit if "1_" in mnemonic else x & ~bit)


SAVE = {
    "and": lambda a, e: a & e,
    "or": lambda a, e: a | e,
    "xor": lambda a, e: a ^ e,
    "andn1": lambda a, e: ~a & e,
    "andn2": lambda a, e: a & ~e,
    "orn1": lambda a, e: ~a | e,
    "orn2": lambda a, e: a | ~e,
}


@pytest.mark.parametrize("mnemonic", [f"s_{n}_saveexec_b64" for n in SAVE])
def test_saveexec(mnemonic):
    fn = SAVE[mnemonic.split("_")[1]]
    for before in (0, M64, 0xF0F0F0F00F0F0F0F):
        opcodes.assemble(f"{mnemonic} s[40:41], s[20:21]", "gfx942")
        g = asm.run(f"{mnemonic} s[40:41], s[20:21]", scalars=given(20, EDGES64, 64), waves=len(EDGES64), execute=before)
        for x, saved, now, scc in zip(EDGES64, result(g, 40, 64), result(g, 126, 64), g.scc, strict=True):
            assert (saved, now, bool(scc)) == (before, fn(x, before) & M64, fn(x, before) & M64 != 0)


@pytest.mark.parametrize(
    ("mnemonic", "count"),
    [("s_load_dword", 1), ("s_load_dwordx2", 2), ("s_load_dwordx4", 4), ("s_load_dwordx8", 8), ("s_load_dwordx16", 16)],
)
@pytest.mark.parametrize("offset", ["0x0", "0x14", "s2 offset:0x8"])
def test_scalar_load(mnemonic, count, offset):
    data = np.arange(64, dtype=np.uint32) * np.uint32(0x01234567)
    target = "s20" if count == 1 else f"s[20:{19 + count}]"
    line = f"{mnemonic} {target}, s[80:81], {offset}"
    opcodes.assemble(line, "gfx942")
    g = asm.run(line + "\ns_waitcnt lgkmcnt(0)", scalars={2: 32}, memory={"x": data.copy()})
    start = (40 if "s2" in offset else int(offset, 0)) // 4
    assert [int(g.S[20 + k, 0]) for k in range(count)] == data[start : start + count].tolist()
