"""Every atomic of every path: lanes are served in order, switched-off lanes do nothing, the old value is returned where it is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from . import asm, exact, opcodes

M = {32: (1 << 32) - 1, 64: (1 << 64) - 1}
EXECUTE = 0xF7FF_0FFE_8000_7FFD
LANE = np.arange(64)


def s(x, bits):
    return x - (1 << bits) if x >> (bits - 1) else x


INTEGER = {
    "add": lambda a, b, n: a + b,
    "sub": lambda a, b, n: a - b,
    "and": lambda a, b, n: a & b,
    "or": lambda a, b, n: a | b,
    "xor": lambda a, b, n: a ^ b,
    "umin": lambda a, b, n: min(a, b),
    "umax": lambda a, b, n: max(a, b),
    "smin": lambda a, b, n: min(s(a, n), s(b, n)),
    "smax": lambda a, b, n: max(s(a, n), s(b, n)),
    "swap": lambda a, b, n: b,
    "inc": lambda a, b, n: 0 if a >= b else a + 1,
    "dec": lambda a, b, n: b if a == 0 or a > b else a - 1,
}


def floats(a, kind):
    return np.array([a], f"u{int(kind[1:]) // 8}").view(exact.TYPES[kind])[0]


def bits_of(x, kind):
    return int(np.array([x], exact.TYPES[kind]).view(f"u{int(kind[1:]) // 8}")[0])


def on_floats(fn, kind):
    return lambda a, b, n: bits_of(fn(floats(a, kind), floats(b, kind)), kind)


def of_two(fn, kind):
    """On the halves of a word."""

    def run(a, b, n):
        if kind == "f16":
            return (
                bits_of(fn(floats(a & 0xFFFF, kind), floats(b & 0xFFFF, kind)), kind)
                | bits_of(fn(floats(a >> 16, kind), floats(b >> 16, kind)), kind) << 16
            )
        parts = [
            fn(float(floats(x & 0xFFFF0000, "f32")), float(floats(y & 0xFFFF0000, "f32")))
            for x, y in ((a << 16 & M[32], b << 16 & M[32]), (a, b))
        ]
        words = [bits_of(exact.fma(p, 1.0, -0.0, "bf16"), "f32") >> 16 for p in parts]
        return words[0] | words[1] << 16

    return run


def pick(fn):
    return lambda a, b: fn(np.array([a]), np.array([b]))[0]


FLOAT = {
    "add_f32": (32, on_floats(lambda a, b: a + b, "f32")),
    "add_f64": (64, on_floats(lambda a, b: a + b, "f64")),
    "min_f64": (64, on_floats(pick(exact.smaller), "f64")),
    "max_f64": (64, on_floats(pick(exact.larger), "f64")),
    "pk_add_f16": (32, of_two(lambda a, b: a + b, "f16")),
    "pk_add_bf16": (32, of_two(lambda a, b: a + b, "bf16")),
}
LDS = {
    "add_u": "add",
    "sub_u": "sub",
    "and_b": "and",
    "or_b": "or",
    "xor_b": "xor",
    "min_u": "umin",
    "max_u": "umax",
    "min_i": "smin",
    "max_i": "smax",
}
OPERATIONS = {f"{n}{x}": (b, fn) for n, fn in INTEGER.items() for x, b in (("", 32), ("_x2", 64))} | FLOAT
TABLE = {f"{p}_atomic_{n}": (p, *row) for p in ("global", "flat", "buffer") for n, row in OPERATIONS.items()}
for _returns in ("", "rtn_"):
    for _name, _op in LDS.items():
        for _bits in (32, 64):
            _head, _tail = _name.split("_")
            TABLE[f"ds_{_head}_{_returns}{_tail}{_bits}"] = ("ds", _bits, INTEGER[_op])
    TABLE |= {f"ds_{n}_{_returns}u32": ("ds", 32, INTEGER[n]) for n in ("inc", "dec")}
    TABLE |= {f"ds_add_{_returns}{k}": ("ds", *FLOAT[f"add_{k}"]) for k in ("f32", "f64")}
    TABLE |= {f"ds_pk_add_{_returns}{k}": ("ds", *FLOAT[f"pk_add_{k}"]) for k in ("f16", "bf16")}


def values(mnemonic, bits):
    """What the lanes bring: edge values of the operation's kind."""
    kind = "f16" if mnemonic.endswith("_f16") else mnemonic[-3:] if mnemonic[-3:] in ("f32", "f64") else None
    if mnemonic.endswith("bf16"):
        return [int(v) for v in np.resize(np.array([0x3F804000, 0x7F7FC120, 0x00010001, 0xBF800000, 0x3C003C01], np.uint64), 64)]
    if kind == "f16":
        low = np.resize(opcodes.EDGES["f16"].view(np.uint16)[:12], 64).astype(np.uint64)
        return [int(v) for v in low | np.roll(low, 3) << np.uint64(16)]
    edges = opcodes.EDGES[kind or f"u{bits}"]
    edges = edges[np.isfinite(edges)] if kind else edges
    return [int(v) for v in np.resize(edges.view(f"u{bits // 8}"), 64)]


def reg(i, bits):
    return f"v[{i}:{i + 1}]" if bits == 64 else f"v{i}"


def line_of(mnemonic, path, data, old):
    """The instruction, returning the old value into `old` if the path can."""
    if path == "ds":
        return f"{mnemonic} {old + ', ' if 'rtn' in mnemonic else ''}v1, {data}"
    if path == "buffer":
        return f"{mnemonic} {data}, v1, s[4:7], 0 offen sc0"
    return f"{mnemonic} {old}, {'v1, ' + data + ', s[80:81]' if path == 'global' else 'v[40:41], ' + data} sc0"


def execute(mnemonic, path, bits, words, start, line):
    """Runs the line with four places, and returns what is in them at the end, and the old values."""
    at = LANE % 4 * 8
    vectors = {1: at, 2: np.array(words, np.uint64) & np.uint64(M[32]), 3: np.array(words, np.uint64) >> np.uint64(32), 8: 77, 9: 77}
    opcodes.assemble(line, "gfx950")
    memory = np.array(start, np.uint64)
    whole = "s_mov_b64 s[60:61], exec\ns_mov_b64 exec, -1\n"
    text = whole + "s_mov_b64 s[4:5], s[80:81]\ns_mov_b32 s6, 32\ns_mov_b32 s7, 0x27000\nv_mov_b32_e32 v40, s80\nv_mov_b32_e32 v41, s81\n"
    text += "v_mov_b32_e32 v44, v1\nv_mov_b32_e32 v45, 0\nv_lshl_add_u64 v[40:41], v[44:45], 0, v[40:41]\n"
    if path == "ds":
        text += "global_load_dwordx2 v[20:21], v1, s[80:81]\ns_waitcnt vmcnt(0)\nds_write_b64 v1, v[20:21]\ns_waitcnt lgkmcnt(0)\n"
    text += f"s_mov_b64 exec, s[60:61]\n{line}\ns_waitcnt vmcnt(0) lgkmcnt(0)\n"
    if path == "ds":
        text += "s_mov_b64 exec, -1\nds_read_b64 v[20:21], v1\ns_waitcnt lgkmcnt(0)\nglobal_store_dwordx2 v1, v[20:21], s[80:81]\n"
    g = asm.run(text, vectors, execute=EXECUTE, memory={"x": memory}, arch="gfx950")
    place = 2 if path == "buffer" else 8
    return memory, [int(g.V[place, 0, i]) | (int(g.V[place + 1, 0, i]) << 32 if bits == 64 else 0) for i in range(64)]


def same(got, want, mnemonic):
    """Equal, or both NaN."""
    kind = mnemonic[-3:]
    if kind in ("f32", "f64"):
        x, y = floats(got, kind), floats(want, kind)
        return got == want or (np.isnan(x) and np.isnan(y))
    return got == want


@pytest.mark.parametrize("mnemonic", TABLE)
def test_atomic(mnemonic):
    path, bits, fn = TABLE[mnemonic]
    words = values(mnemonic, bits)
    start = [words[5], words[11], 0, words[20]]
    line = line_of(mnemonic, path, reg(2, bits), reg(8, bits))
    returns = path != "ds" or "rtn" in mnemonic
    with np.errstate(all="ignore"):
        memory, old = execute(mnemonic, path, bits, words, start, line)
        state = list(start)
        for lane in range(64):
            if not EXECUTE >> lane & 1:
                continue
            if returns:
                assert same(old[lane], state[lane % 4], mnemonic), lane
            state[lane % 4] = fn(state[lane % 4], words[lane], bits) & M[bits]
    for got, want in zip(memory, state, strict=True):
        assert same(int(got) & M[bits], want, mnemonic)


@pytest.mark.parametrize("mnemonic", [f"{p}_atomic_cmpswap{x}" for p in ("global", "flat", "buffer") for x in ("", "_x2")])
def test_compare_and_swap(mnemonic):
    path, bits = mnemonic.split("_")[0], 64 if mnemonic.endswith("x2") else 32
    new = [(lane * 0x1_0000_0001 + 1000) & M[bits] for lane in range(64)]
    wanted = [new[lane - 4] if lane % 8 < 6 and lane >= 4 else 5 for lane in range(64)]
    n = bits // 32
    data = f"v[2:{1 + 2 * n}]"
    line = line_of(mnemonic, path, data, reg(8, bits))
    opcodes.assemble(line, "gfx950")
    vectors = {1: LANE % 4 * 8}
    for k in range(n):
        vectors[2 + k] = np.array([v >> 32 * k & M[32] for v in new], np.uint32)
        vectors[2 + n + k] = np.array([v >> 32 * k & M[32] for v in wanted], np.uint32)
    memory = np.array([5, 5, 5, 6], np.uint64)
    text = "s_mov_b64 s[4:5], s[80:81]\ns_mov_b32 s6, 32\ns_mov_b32 s7, 0x27000\nv_mov_b32_e32 v40, s80\nv_mov_b32_e32 v41, s81\n"
    text += "v_mov_b32_e32 v44, v1\nv_mov_b32_e32 v45, 0\nv_lshl_add_u64 v[40:41], v[44:45], 0, v[40:41]\n"
    g = asm.run(text + line + "\ns_waitcnt vmcnt(0) lgkmcnt(0)", vectors, memory={"x": memory}, arch="gfx950")
    state, place = [5, 5, 5, 6], 2 if path == "buffer" else 8
    for lane in range(64):
        old = int(g.V[place, 0, lane]) | (int(g.V[place + 1, 0, lane]) << 32 if bits == 64 else 0)
        assert old == state[lane % 4], lane
        if state[lane % 4] == wanted[lane]:
            state[lane % 4] = new[lane]
    assert [int(v) & M[bits] for v in memory] == state
