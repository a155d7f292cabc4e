"""Every load and store of every path: bytes, extension, halves, misaligned addresses, switched-off lanes."""

from __future__ import annotations

import numpy as np
import pytest

from . import asm, opcodes

LANE = np.arange(64)
DATA = ((np.arange(4096) * 37 + 11) % 251).astype(np.uint8)
EXECUTE = 0xF7FF_0FFE_8000_7FFD
SIZES = {"dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16, "ubyte": 1, "sbyte": 1, "ushort": 2, "sshort": 2, "short": 2, "byte": 1}
LOADS = ["dword", "dwordx2", "dwordx3", "dwordx4", "ubyte", "sbyte", "ushort", "sshort"]
LOADS += [f"{n}_d16{h}" for n in ("ubyte", "sbyte", "short") for h in ("", "_hi")]
STORES = ["dword", "dwordx2", "dwordx3", "dwordx4", "byte", "short", "byte_d16_hi", "short_d16_hi"]
LOAD = {f"{p}_load_{n}": (p, n) for p in ("global", "flat", "buffer", "scratch") for n in LOADS if not (p == "scratch" and "d16" in n)}
STORE = {f"{p}_store_{n}": (p, n) for p in ("global", "flat", "buffer", "scratch") for n in STORES if not (p == "scratch" and "d16" in n)}
OFFSET = 16
START = f"""s_mov_b64 s[4:5], s[80:81]
s_mov_b32 s6, {len(DATA)}
s_mov_b32 s7, 0x27000
"""


def registers(i, n):
    return f"v{i}" if n == 1 else f"v[{i}:{i + n - 1}]"


def line_of(mnemonic, path, data, store):
    address = {"global": "v1, {d}, s[80:81]", "flat": "v[40:41], {d}", "buffer": "{d}, v1, s[4:7], 0 offen", "scratch": "v1, {d}, off"}[
        path
    ]
    if not store and path in ("global", "flat", "scratch"):
        address = {"global": "{d}, v1, s[80:81]", "flat": "{d}, v[40:41]", "scratch": "{d}, v1, off"}[path]
    return f"{mnemonic} {address.format(d=data)} offset:{OFFSET}"


def addresses(at):
    """v1 as an offset; v[40:41] as an address, made from the tensor's."""
    code = "v_mov_b32_e32 v40, s80\nv_mov_b32_e32 v41, s81\nv_mov_b32_e32 v44, v1\nv_mov_b32_e32 v45, 0\n"
    code += "v_lshl_add_u64 v[40:41], v[44:45], 0, v[40:41]\n"
    return "s_mov_b64 s[60:61], exec\ns_mov_b64 exec, -1\n" + code + "s_mov_b64 exec, s[60:61]\n", {1: at.astype(np.uint32)}


def loaded(raw, name, old):
    """The registers a load leaves, from its bytes and the old value."""
    signed = name[0] == "s" and "short_d16" not in name
    value = int.from_bytes(raw, "little", signed=signed)
    if "_d16" in name:
        value &= 0xFFFF
        return [value << 16 | old & 0xFFFF if name.endswith("_hi") else old & 0xFFFF0000 | value]
    n = max(1, len(raw) // 4)
    return [value >> 32 * k & 0xFFFFFFFF for k in range(n)]


@pytest.mark.parametrize("mnemonic", LOAD)
@pytest.mark.parametrize("execute", [opcodes.ALL, EXECUTE], ids=["all lanes", "some lanes"])
def test_load(mnemonic, execute):
    path, name = LOAD[mnemonic]
    size = SIZES[name.split("_d16")[0]]
    n = max(1, size // 4)
    at = LANE[::-1] * 32 + (LANE % 4 * (1 if size == 1 else 4) if path != "scratch" else LANE * 0)
    prepare, vectors = addresses(at if path != "scratch" else LANE * 0)
    line = line_of(mnemonic, path, registers(8, n), False)
    opcodes.assemble(line, "gfx942")
    fill = ""
    if path == "scratch":  # fill the scratch of every lane with its words
        vectors |= {20 + k: DATA.view(np.uint32)[LANE * 4 + k] for k in range(4)}
        fill = f"scratch_store_dwordx4 v1, v[20:23], off offset:{OFFSET}\ns_waitcnt vmcnt(0)\n"
    vectors |= {8 + k: opcodes.OLD for k in range(n)}
    g = asm.run(
        START + prepare + fill + line + "\ns_waitcnt vmcnt(0) lgkmcnt(0)", vectors, execute=execute, memory={"x": DATA.copy()}, scratch=64
    )
    for lane in range(64):
        first = lane * 16 if path == "scratch" else int(at[lane]) + OFFSET
        want = loaded(DATA[first : first + size].tobytes(), name, int(opcodes.OLD)) if execute >> lane & 1 else [int(opcodes.OLD)] * n
        assert [int(g.V[8 + k, 0, lane]) for k in range(n)] == want, lane


@pytest.mark.parametrize("mnemonic", STORE)
@pytest.mark.parametrize("execute", [opcodes.ALL, EXECUTE], ids=["all lanes", "some lanes"])
def test_store(mnemonic, execute):
    path, name = STORE[mnemonic]
    size = SIZES[name.split("_d16")[0]]
    n = max(1, size // 4)
    at = LANE[::-1] * 32 if path != "scratch" else LANE * 0
    prepare, vectors = addresses(at)
    line = line_of(mnemonic, path, registers(8, n), True)
    opcodes.assemble(line, "gfx942")
    words = [(0x80776655 + LANE * 0x01020304 + k).astype(np.uint32) for k in range(n)]
    memory = np.full(4096, 0xEE, np.uint8)
    back, extra = "", {}
    if path == "scratch":
        extra = {20 + k: 0xEEEEEEEE for k in range(4)}
        prepare += f"s_mov_b64 exec, -1\nscratch_store_dwordx4 v1, v[20:23], off offset:{OFFSET}\ns_mov_b64 exec, s[60:61]\n"
        back = f"s_mov_b64 exec, -1\nscratch_load_dwordx4 v[30:33], v1, off offset:{OFFSET}\ns_waitcnt vmcnt(0)\n"
    g = asm.run(
        START + prepare + line + "\n" + back,
        vectors | extra | {8 + k: w for k, w in enumerate(words)},
        execute=execute,
        memory={"x": memory},
        scratch=64,
    )
    for lane in range(64):
        raw = b"".join(int(w[lane]).to_bytes(4, "little") for w in words)
        raw = (raw[2:] if "_d16_hi" in name else raw)[:size] if execute >> lane & 1 else b""
        if path == "scratch":
            got = np.array([g.V[30 + k, 0, lane] for k in range(4)], np.uint32).tobytes()
        else:
            got = memory[at[lane] + OFFSET : at[lane] + OFFSET + 16].tobytes()
        assert got == raw + b"\xee" * (16 - len(raw)), lane


DS = {"b32": 4, "b64": 8, "b96": 12, "b128": 16, "u8": 1, "i8": 1, "u16": 2, "i16": 2, "b8": 1, "b16": 2}
DS_READS = ["b32", "b64", "b96", "b128", "u8", "i8", "u16", "i16", *(f"{k}_d16{h}" for k in ("u8", "i8", "u16") for h in ("", "_hi"))]
DS_WRITES = ["b8", "b16", "b32", "b64", "b96", "b128", "b8_d16_hi", "b16_d16_hi"]
FILL = "ds_write_b128 v2, v[20:23]\ns_waitcnt lgkmcnt(0)\n"


def filled():
    """16 bytes a lane of LDS, and the vectors that fill it."""
    words = DATA.view(np.uint32)[: 4 * 64].reshape(64, 4)
    return {2: LANE * 16, **{20 + k: words[:, k] for k in range(4)}}


@pytest.mark.parametrize("mnemonic", [f"ds_read_{n}" for n in DS_READS])
def test_lds_read(mnemonic):
    name = mnemonic[8:]
    size = DS[name.split("_")[0]]
    n = max(1, size // 4)
    line = f"{mnemonic} {registers(8, n)}, v1 offset:{16 if size == 1 else 8 if size < 8 else 0}"
    opcodes.assemble(line, "gfx942")
    offset = int(line.rsplit(":", 1)[1])
    at = (LANE[::-1] * 16) % 992 + (LANE % 3 if size == 1 else 0)
    text = "s_mov_b64 s[60:61], exec\ns_mov_b64 exec, -1\n" + FILL + "s_mov_b64 exec, s[60:61]\n" + line + "\ns_waitcnt lgkmcnt(0)"
    g = asm.run(text, filled() | {1: at} | {8 + k: opcodes.OLD for k in range(n)}, execute=EXECUTE)
    for lane in range(64):
        first = int(at[lane]) + offset
        as_load = name.replace("i8", "sbyte").replace("i16", "sshort")
        want = loaded(DATA[first : first + size].tobytes(), as_load, int(opcodes.OLD)) if EXECUTE >> lane & 1 else [int(opcodes.OLD)] * n
        assert [int(g.V[8 + k, 0, lane]) for k in range(n)] == want, lane


@pytest.mark.parametrize("mnemonic", [f"ds_write_{n}" for n in DS_WRITES])
def test_lds_write(mnemonic):
    name = mnemonic[9:]
    size = DS[name.split("_")[0]]
    n = max(1, size // 4)
    line = f"{mnemonic} v2, {registers(8, n)}"
    opcodes.assemble(line, "gfx942")
    words = [(0x80776655 + LANE * 0x01020304 + k).astype(np.uint32) for k in range(n)]
    text = f"s_mov_b64 s[60:61], exec\ns_mov_b64 exec, -1\n{FILL}s_mov_b64 exec, s[60:61]\n{line}\ns_waitcnt lgkmcnt(0)\n"
    text += "s_mov_b64 exec, -1\nds_read_b128 v[30:33], v2\ns_waitcnt lgkmcnt(0)"
    g = asm.run(text, filled() | {8 + k: w for k, w in enumerate(words)}, execute=EXECUTE)
    for lane in range(64):
        raw = b"".join(int(w[lane]).to_bytes(4, "little") for w in words)
        raw = (raw[2:] if "hi" in name else raw)[:size] if EXECUTE >> lane & 1 else b""
        got = np.array([g.V[30 + k, 0, lane] for k in range(4)], np.uint32).tobytes()
        assert got == raw + DATA[lane * 16 + len(raw) : lane * 16 + 16].tobytes(), lane


@pytest.mark.parametrize("mnemonic", [f"ds_{o}2{s}_{b}" for o in ("read", "write") for s in ("", "st64") for b in ("b32", "b64")])
def test_two_at_once(mnemonic):
    size = DS[mnemonic[-3:]]
    n, step = size // 4, size * (64 if "st64" in mnemonic else 1)
    offsets = (1, 2) if "st64" in mnemonic else (0, 3)
    modifiers = f"offset0:{offsets[0]} offset1:{offsets[1]}"
    at = LANE * size if "st64" in mnemonic else LANE * 4 * size
    plain = {4: "b32", 8: "b64"}[size]
    if "write" in mnemonic:
        line = f"{mnemonic} v1, {registers(8, n)}, {registers(10, n)} {modifiers}"
        check = "".join(f"ds_read_{plain} {registers(14 + 2 * k, n)}, v1 offset:{o * step}\n" for k, o in enumerate(offsets))
        text = line + "\ns_waitcnt lgkmcnt(0)\n" + check
    else:
        line = f"{mnemonic} {registers(14, 2 * n)}, v1 {modifiers}"
        fill = "".join(f"ds_write_{plain} v1, {registers(8 + 2 * k, n)} offset:{o * step}\n" for k, o in enumerate(offsets))
        text = fill + "s_waitcnt lgkmcnt(0)\n" + line
    opcodes.assemble(line, "gfx942")
    words = {8 + k: LANE * 1000 + k for k in range(4)}
    g = asm.run(text + "\ns_waitcnt lgkmcnt(0)", words | {1: at})
    got = [14, 15, 16, 17] if n == 2 else [14, 15] if "read" in mnemonic else [14, 16]
    want = [8, 9, 10, 11] if n == 2 else [8, 10]
    for i, j in zip(got, want, strict=True):
        assert (g.V[i, 0] == g.V[j, 0]).all()
