"""Every size of every memory path, and every atomic on global memory and LDS."""

from __future__ import annotations

import numpy as np
import pytest

from kvcheck.agent.emulator.vmem import LOADS, SIZES, STORES

from . import asm

LANE = np.arange(64, dtype=np.uint32)
DATA = (np.arange(4096) * 37 % 251).astype(np.uint8)
PATHS = {
    "global": ("global_{op} {first}, {second}, s[80:81] offset:16", True),
    "flat": ("flat_{op} {first}, {second} offset:16", True),
    "buffer": ("buffer_{op} {data}, v1, s[4:7], 0 offen offset:16", False),
}
PREFACE = """s_mov_b64 s[4:5], s[80:81]
s_mov_b32 s6, 4096
s_mov_b32 s7, 0x27000
v_mov_b32_e32 v40, s80
v_mov_b32_e32 v41, s81
v_lshl_add_u64 v[40:41], v[42:43], 0, v[40:41]
"""


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", LOADS)
def test_every_load(path, name):
    size = SIZES[name.split("_d16")[0]]
    n = max(1, size // 4)
    data = "v8" if n == 1 else f"v[8:{7 + n}]"
    address = "v[40:41]" if path == "flat" else "v1"
    line = PATHS[path][0].format(op=f"load_{name}", first=data, second=address, data=data)
    where = LANE * 32
    g = asm.run(PREFACE + line + "\ns_waitcnt vmcnt(0) lgkmcnt(0)", {1: where, 42: where, 43: 0, 8: 0xAAAABBBB}, memory={"x": DATA.copy()})
    for lane in (0, 5, 63):
        raw = int.from_bytes(DATA[lane * 32 + 16 : lane * 32 + 16 + size].tobytes(), "little", signed=name[0] == "s") & (
            (1 << 8 * max(4, size)) - 1
        )
        if name.endswith("_d16"):
            raw = 0xAAAA0000 | raw & 0xFFFF
        elif name.endswith("_d16_hi"):
            raw = 0xBBBB | (raw & 0xFFFF) << 16
        elif name == "short_d16":
            raw = 0xAAAA0000 | raw & 0xFFFF
        assert sum(int(g.V[8 + k, 0, lane]) << 32 * k for k in range(n)) == raw


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", STORES)
def test_every_store(path, name):
    size = SIZES[name.split("_d16")[0]]
    n = max(1, size // 4)
    data = "v8" if n == 1 else f"v[8:{7 + n}]"
    address = "v[40:41]" if path == "flat" else "v1"
    line = PATHS[path][0].format(op=f"store_{name}", first=address, second=data, data=data)
    memory, where = np.zeros(4096, np.uint8), LANE * 32
    asm.run(PREFACE + line, {1: where, 42: where, 43: 0} | {8 + k: 0x44332211 + LANE + k for k in range(n)}, memory={"x": memory})
    for lane in (0, 9, 63):
        words = b"".join(int(0x44332211 + lane + k).to_bytes(4, "little") for k in range(n))
        words = words[2:] if name.endswith("_d16_hi") else words
        assert memory[lane * 32 + 16 : lane * 32 + 16 + size].tobytes() == words[:size]
        assert not memory[lane * 32 + 16 + size : lane * 32 + 48].any()


@pytest.mark.parametrize("name", [n for n in STORES if "_d16" not in n])
def test_every_scratch_size(name):
    size = SIZES[name]
    n = max(1, size // 4)
    source, target = ("v2", "v10") if n == 1 else (f"v[2:{1 + n}]", f"v[10:{9 + n}]")
    load = {"byte": "ubyte", "short": "ushort"}.get(name, name)
    g = asm.run(
        f"scratch_store_{name} off, {source}, off offset:16\nscratch_load_{load} {target}, off, off offset:16\ns_waitcnt vmcnt(0)",
        {2 + k: LANE * 1000 + k for k in range(n)},
        scratch=64,
    )
    low = np.uint32((1 << 8 * min(4, size)) - 1)
    assert all((g.V[10 + k, 0] == (LANE * 1000 + k) & low).all() for k in range(n))


LDS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": min,
    "max": max,
    "inc": lambda a, b: 0 if a >= b else a + 1,
    "dec": lambda a, b: b if a == 0 or a > b else a - 1,
}
LDS_NAMES = [f"{n}_{k}" for n in ("add", "sub", "min", "max") for k in ("u32", "u64")] + [
    f"{n}_{k}" for n in ("and", "or", "xor") for k in ("b32", "b64")
]
LDS_NAMES += ["min_i32", "max_i32", "min_i64", "max_i64", "inc_u32", "dec_u32"]


@pytest.mark.parametrize("name", LDS_NAMES)
def test_every_lds_atomic(name):
    op, kind = name.split("_")
    bits = int(kind[1:])
    start = 0x80000005 if bits == 32 else (1 << 63) + 5
    data = ((LANE.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits)).tolist()
    pair = "v[2:3]" if bits == 64 else "v2"
    old = "v[6:7]" if bits == 64 else "v6"
    end = "v[8:9]" if bits == 64 else "v8"
    initial = "v[4:5]" if bits == 64 else "v4"
    lines = f"""ds_write_b{bits} v1, {initial}
                s_waitcnt lgkmcnt(0)
                ds_{op}_rtn_{kind} {old}, v1, {pair}
                ds_{op}_{kind} v1, {pair} offset:8
                ds_read_b{bits} {end}, v1
                s_waitcnt lgkmcnt(0)"""
    words = np.array(data, np.uint64)
    g = asm.run(lines, {1: 0, 2: words & 0xFFFFFFFF, 3: words >> np.uint64(32), 4: start & 0xFFFFFFFF, 5: start >> 32})
    state, mask = start, (1 << bits) - 1
    for lane in range(64):
        assert sum(int(g.V[6 + k, 0, lane]) << 32 * k for k in range(bits // 32)) == state
        a, b = state, data[lane]
        if kind[0] == "i":
            a, b = (v - (1 << bits) if v >> (bits - 1) else v for v in (a, b))
        state = LDS[op](a, b) & mask
    assert sum(int(g.V[8 + k, 0, 0]) << 32 * k for k in range(bits // 32)) == state


@pytest.mark.parametrize("path", ["flat", "buffer"])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", ["add", "sub", "and", "or", "xor", "umin", "umax", "smin", "smax", "swap", "inc", "dec", "cmpswap"])
def test_every_atomic_path_agrees_with_global(path, wide, name):
    words = (2 if wide else 1) * (2 if name == "cmpswap" else 1)
    data, x2 = f"v[8:{7 + words}]" if words > 1 else "v8", "_x2" if wide else ""
    where = (LANE % 3) * 8
    vectors = {1: where, 42: where, 43: 0} | {8 + k: LANE * 77 + k for k in range(words)}
    line = {"flat": f"flat_atomic_{name}{x2} v[40:41], {data}", "buffer": f"buffer_atomic_{name}{x2} {data}, v1, s[4:7], 0 offen"}[path]
    got, want = DATA.copy(), DATA.copy()
    asm.run(PREFACE + line, vectors, memory={"x": got})
    asm.run(f"global_atomic_{name}{x2} v1, {data}, s[80:81]", vectors, memory={"x": want})
    assert (got == want).all()
