"""Every vector comparison and class test over edge values, into a mask and into EXEC, and selection by a mask."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from . import asm, exact, opcodes

FLOAT = {
    "f": lambda x, y: False,
    "lt": operator.lt,
    "eq": operator.eq,
    "le": operator.le,
    "gt": operator.gt,
    "lg": lambda x, y: x < y or x > y,
    "ge": operator.ge,
    "o": lambda x, y: x == x and y == y,
    "u": lambda x, y: x != x or y != y,
    "nge": lambda x, y: not x >= y,
    "nlg": lambda x, y: not (x < y or x > y),
    "ngt": lambda x, y: not x > y,
    "nle": lambda x, y: not x <= y,
    "neq": operator.ne,
    "nlt": lambda x, y: not x < y,
    "tru": lambda x, y: True,
}
INTEGER = {"lt": operator.lt, "eq": operator.eq, "le": operator.le, "gt": operator.gt, "ne": operator.ne, "ge": operator.ge}
ROWS = {f"v_cmp_{t}_{k}": (k, fn) for t, fn in FLOAT.items() for k in ("f16", "f32", "f64")}
ROWS |= {f"v_cmp_{t}_{s}{b}": (f"{s}{b}", fn) for t, fn in INTEGER.items() for s in "iu" for b in (16, 32, 64)}
TABLE = ROWS | {n.replace("v_cmp", "v_cmpx"): row for n, row in ROWS.items()}


def masks(line, columns, kinds, execute):
    """s[2:3] and EXEC after a line, [wave, lane], and a vector written after it."""
    vectors = {10 + 4 * i + k: w for i, c in enumerate(columns) for k, w in enumerate(opcodes.words(opcodes.place(c, execute)))}
    operands = {n: opcodes.register(10 + 4 * i, k) for i, (n, k) in enumerate(zip("ab", kinds, strict=False))}
    text = line.format(**operands)
    opcodes.assemble(text, "gfx942")
    waves = len(vectors[10])
    g = asm.run(text, vectors | {40: opcodes.OLD}, execute=execute, waves=waves)
    return g.mask(2), g.exec, g.V[40]


@pytest.mark.parametrize("mnemonic", TABLE)
def test_comparison(mnemonic):
    kind, fn = TABLE[mnemonic]
    edges = {kind: opcodes.EDGES[kind][:8] if kind[0] != "f" else opcodes.EDGES[kind]}
    columns = opcodes.columns([kind, kind], edges)
    want = np.array([bool(fn(x, y)) for x, y in zip(*(c.tolist() for c in columns), strict=True)])
    for execute in (opcodes.ALL, opcodes.SOME):
        lanes = opcodes.active(execute)
        got, active, _ = masks(f"{mnemonic}_e64 s[2:3], {{a}}, {{b}}", columns, [kind, kind], execute)
        assert (got[:, lanes].reshape(-1)[: len(want)] == want).all()
        off = np.setdiff1d(np.arange(64), lanes)
        assert not got[:, off].any()
        if mnemonic.startswith("v_cmpx"):
            assert (active == got).all()


def class_of(x):
    """Number of the class bit."""
    if np.isnan(x):
        return 0 if exact.signalling(np.array([x]))[0] else 1
    smallest = {2: 2.0**-14, 4: 2.0**-126, 8: 2.0**-1022}[x.itemsize]
    size = abs(float(x))
    level = 3 if size == np.inf else 2 if size >= smallest else 1 if size else 0
    return 5 - level if np.signbit(x) else 6 + level


@pytest.mark.parametrize("mnemonic", ["v_cmp_class_f16", "v_cmp_class_f32", "v_cmp_class_f64", "v_cmpx_class_f32"])
def test_class(mnemonic):
    kind = mnemonic[-3:]
    signalling = np.array([{"f16": 0x7D00, "f32": 0x7FA00000, "f64": 0x7FF4 << 48}[kind]], f"u{int(kind[1:]) // 8}").view(
        opcodes.DTYPE[kind]
    )
    edges = {
        kind: np.concatenate([opcodes.EDGES[kind], signalling, -signalling]),
        "u32": np.array([*(1 << np.arange(10)), 0, 0x3FF, 0x204], np.uint32),
    }
    columns = opcodes.columns([kind, "u32"], edges)
    want = np.array([bool(int(m) >> class_of(x) & 1) for x, m in zip(*columns, strict=True)])
    for execute in (opcodes.ALL, opcodes.SOME):
        lanes = opcodes.active(execute)
        got, active, _ = masks(f"{mnemonic}_e64 s[2:3], {{a}}, {{b}}", columns, [kind, "u32"], execute)
        assert (got[:, lanes].reshape(-1)[: len(want)] == want).all()
        if mnemonic.startswith("v_cmpx"):
            assert (active == got).all()


@pytest.mark.parametrize("mnemonic", ["v_cndmask_b32"])
@pytest.mark.parametrize("mask", ["vcc", "s[2:3]"])
def test_selection_by_a_mask(mnemonic, mask):
    execute, choose = opcodes.SOME, 0x0F0F_3C3C_5555_AAAB
    low, high = ("vcc_lo", "vcc_hi") if mask == "vcc" else ("s2", "s3")
    line = f"s_mov_b32 {low}, {hex(choose & 0xFFFFFFFF)}\ns_mov_b32 {high}, {hex(choose >> 32)}\n{mnemonic}_e64 v40, v10, -|v14|, {mask}"
    opcodes.assemble(line, "gfx942")
    a, b = np.arange(64, dtype=np.uint32), asm.f32(*range(64))
    g = asm.run(line, {10: a, 14: b, 40: opcodes.OLD}, execute=execute)
    for lane in range(64):
        want = int(b[lane] | 0x80000000) if choose >> lane & 1 else int(a[lane])
        assert int(g.V[40, 0, lane]) == (want if execute >> lane & 1 else int(opcodes.OLD))
