"""Global, buffer, scratch and LDS instructions, and atomics, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from kvcheck.agent.emulator.errors import MemoryFault, NotEmulated

from . import asm

LANE = np.arange(64, dtype=np.uint32)
WORDS = np.arange(0x100, 0x100 + 1024, dtype=np.uint32) * np.uint32(0x01010101)


def buffer(size):
    """Scalars 4..7: a buffer resource on the first tensor, of `size` bytes."""
    return f"s_mov_b64 s[4:5], s[80:81]\ns_mov_b32 s6, {size}\ns_mov_b32 s7, 0x27000\n"


@pytest.mark.parametrize(("count", "suffix"), [(1, ""), (2, "x2"), (3, "x3"), (4, "x4")])
def test_loads_of_words(count, suffix):
    dst = "v8" if count == 1 else f"v[8:{7 + count}]"
    other = "v16" if count == 1 else f"v[16:{15 + count}]"
    lines = (
        f"global_load_dword{suffix} {dst}, v1, s[80:81] offset:4\n"
        + buffer(4096)
        + f"buffer_load_dword{suffix} {other}, v1, s[4:7], 0 offen offset:4\ns_waitcnt vmcnt(0)"
    )
    g = asm.run(lines, {1: LANE * 20}, memory={"x": WORDS.copy()})
    for k in range(count):
        assert (g.V[8 + k, 0] == WORDS[LANE * 5 + 1 + k]).all()
        assert (g.V[16 + k, 0] == WORDS[LANE * 5 + 1 + k]).all()


def test_bytes_and_shorts_extend_and_fill_halves():
    data = np.arange(256, dtype=np.uint8)
    lines = """global_load_ubyte v2, v1, s[80:81] offset:129
               global_load_sbyte v3, v1, s[80:81] offset:129
               global_load_ushort v4, v1, s[80:81] offset:128
               global_load_sshort v5, v1, s[80:81] offset:128
               global_load_short_d16 v6, v1, s[80:81]
               global_load_short_d16_hi v7, v1, s[80:81]
               global_load_ubyte_d16_hi v8, v1, s[80:81]
               s_waitcnt vmcnt(0)"""
    g = asm.run(lines, {1: 2 * np.minimum(LANE, 60), 6: 0xAAAABBBB, 7: 0xAAAABBBB, 8: 0xAAAABBBB}, memory={"x": data})
    assert [int(x) for x in g.V[2:9, 0, 1]] == [131, 0xFFFFFF83, 0x8382, 0xFFFF8382, 0xAAAA0302, 0x0302BBBB, 0x0002BBBB]


def test_addresses_of_64_bits_and_negative_offsets():
    lines = (
        "v_mov_b32_e32 v2, s80\nv_mov_b32_e32 v3, s81\nglobal_load_dword v4, v[2:3], off offset:16\n"
        "flat_load_dword v5, v[2:3] offset:8\ns_waitcnt vmcnt(0)"
    )
    g = asm.run(lines, memory={"x": WORDS.copy()})
    assert (g.V[4, 0] == WORDS[4]).all()
    assert (g.V[5, 0] == WORDS[2]).all()


def test_stores_of_every_size_touch_only_their_bytes():
    out = np.zeros(1024, np.uint8)
    lines = """global_store_byte v1, v2, s[80:81]
               global_store_short v1, v2, s[80:81] offset:2
               global_store_byte_d16_hi v1, v2, s[80:81] offset:5
               global_store_short_d16_hi v1, v2, s[80:81] offset:6
               global_store_dwordx2 v1, v[2:3], s[80:81] offset:8"""
    asm.run(lines, {1: LANE * 16, 2: 0x44332211, 3: 0x88776655}, execute=0x3, memory={"y": out})
    row = [0x11, 0, 0x11, 0x22, 0, 0x33, 0x33, 0x44, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]
    assert out[:16].tolist() == row
    assert out[16:32].tolist() == row
    assert not out[32:].any()


def test_buffer_lanes_outside_read_zero_and_drop_stores():
    out, found = WORDS.copy(), []
    lines = buffer(128) + "buffer_load_dword v2, v1, s[4:7], 0 offen\nbuffer_store_dword v3, v1, s[4:7], 0 offen\ns_waitcnt vmcnt(0)"
    g = asm.run(lines, {1: LANE * 4, 2: 77, 3: 5}, memory={"x": out}, found=found)
    assert (g.V[2, 0, :32] == WORDS[:32]).all()
    assert (g.V[2, 0, 32:] == 0).all()
    assert (out[:32] == 5).all()
    assert (out[32:] == WORDS[32:]).all()
    assert [f.kind for f in found] == ["clamped_access"] * 2
    assert found[0].lanes == 32
    assert found[0].offset == 128


def test_tritons_masked_lanes_are_no_finding():
    found = []
    g = asm.run(
        buffer(0x7FFFFFFE) + "buffer_load_dword v2, v1, s[4:7], 0 offen\ns_waitcnt vmcnt(0)",
        {1: np.where(LANE < 8, LANE * 4, 0x80000000).astype(np.uint32)},
        memory={"x": WORDS.copy()},
        found=found,
    )
    assert not found
    assert (g.V[2, 0, 8:] == 0).all()


def test_scalar_loads():
    g = asm.run("s_load_dword s2, s[80:81], 0x8\ns_load_dwordx4 s[8:11], s[80:81], 0x10\ns_waitcnt lgkmcnt(0)", memory={"x": WORDS.copy()})
    assert int(g.S[2, 0]) == WORDS[2]
    assert [int(x) for x in g.S[8:12, 0]] == WORDS[4:8].tolist()


def test_scratch_is_private_to_a_lane_and_a_wave():
    lines = (
        "scratch_store_dwordx2 off, v[1:2], off offset:8\nscratch_store_byte off, v1, off offset:4\n"
        "scratch_load_dwordx2 v[4:5], off, off offset:8\nscratch_load_ubyte v6, off, off offset:4\ns_waitcnt vmcnt(0)"
    )
    start = np.stack([LANE, LANE + 1000])
    g = asm.run(lines, {1: start, 2: start + 7}, waves=2, scratch=16)
    assert (g.V[4] == start).all()
    assert (g.V[5] == start + 7).all()
    assert (g.V[6] == (start & 255)).all()
    with pytest.raises(MemoryFault, match="scratch"):
        asm.run("scratch_load_dword v1, off, off offset:16", scratch=16)


@pytest.mark.parametrize(("kind", "size"), [("b32", 4), ("b64", 8), ("b96", 12), ("b128", 16)])
def test_lds_round_trip(kind, size):
    n = size // 4
    regs = "v2" if n == 1 else f"v[2:{1 + n}]"
    dst = "v10" if n == 1 else f"v[10:{9 + n}]"
    g = asm.run(
        f"ds_write_{kind} v1, {regs} offset:64\ns_waitcnt lgkmcnt(0)\nds_read_{kind} {dst}, v1 offset:64\ns_waitcnt lgkmcnt(0)",
        {1: LANE * size} | {2 + k: LANE * 3 + k for k in range(n)},
    )
    assert all((g.V[10 + k, 0] == LANE * 3 + k).all() for k in range(n))


def test_lds_addresses_wrap_at_32_bits():
    """LLVM folds constants into the offset from gfx7 on, whatever the sign of the base (AMDGPU's hasUsableDSOffset)."""
    lines = """ds_write_b32 v1, v2
               s_waitcnt lgkmcnt(0)
               ds_read_b32 v4, v3 offset:8192
               s_waitcnt lgkmcnt(0)"""
    g = asm.run(lines, {1: LANE * 4, 2: LANE * 7, 3: (LANE * 4 - 8192) & 0xFFFFFFFF})
    assert (g.V[4, 0] == LANE * 7).all()
    with pytest.raises(MemoryFault, match="lds"):
        asm.run("ds_read_b32 v4, v3 offset:8192", {3: (LANE * 4 - 8196) & 0xFFFFFFFF})


def test_lds_pairs_bytes_and_halves():
    lines = """ds_write2_b32 v1, v2, v3 offset0:0 offset1:1
               ds_write2st64_b32 v1, v2, v3 offset0:8 offset1:10
               ds_write_b8 v1, v4 offset:2
               ds_write_b16_d16_hi v1, v4 offset:4
               s_waitcnt lgkmcnt(0)
               ds_read2_b32 v[6:7], v1 offset1:1
               ds_read2st64_b32 v[8:9], v1 offset0:8 offset1:10
               ds_read_u8 v10, v1 offset:2
               ds_read_i8 v11, v1 offset:2
               ds_read_u16 v12, v1 offset:4
               ds_read_u16_d16_hi v13, v1 offset:4
               s_waitcnt lgkmcnt(0)"""
    g = asm.run(lines, {1: LANE * 8, 2: 0x11111111, 3: 0x22222222, 4: 0xABCD99EE, 13: 0x5555}).V[:, 0, 9]
    assert [int(x) for x in g[6:14]] == [0x11EE1111, 0x2222ABCD, 0x11111111, 0x22222222, 0xEE, 0xFFFFFFEE, 0xABCD, 0xABCD5555]


@pytest.mark.parametrize("bits", [16, 8])
def test_lds_transposing_read(bits):
    """16 lanes hold rows of 16 columns; lane c of a group of 16 reads column c."""
    per, dtype = 64 // bits, {16: np.uint16, 8: np.uint8}[bits]
    tile = np.arange(4 * per * 16).astype(dtype).reshape(4, per, 16)
    words = tile.reshape(-1).view(np.uint32)
    lines = f"ds_write_b64 v1, v[2:3]\ns_waitcnt lgkmcnt(0)\nds_read_b64_tr_b{bits} v[4:5], v1\ns_waitcnt lgkmcnt(0)"
    g = asm.run(lines, {1: LANE * 8, 2: words[0::2], 3: words[1::2]}, arch="gfx950")
    got = np.ascontiguousarray(np.stack([g.V[4, 0], g.V[5, 0]], 1)).view(dtype)
    for lane in range(64):
        assert got[lane].tolist() == tile[lane // 16, :, lane % 16].tolist()


def test_global_load_to_lds():
    lines = (
        "s_mov_b32 m0, 0x100\nglobal_load_lds_dword v1, s[80:81] offset:0\ns_waitcnt vmcnt(0)\n"
        "ds_read_b32 v2, v3 offset:256\ns_waitcnt lgkmcnt(0)"
    )
    g = asm.run(lines, {1: (63 - LANE) * 4, 3: LANE * 4}, memory={"x": WORDS.copy()}, arch="gfx950")
    assert (g.V[2, 0] == WORDS[63 - LANE]).all()


ATOMIC = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "umax": max,
    "umin": min,
    "smax": lambda a, b: max(a, b, key=lambda v: v - (v >> 31 << 32)),
    "smin": lambda a, b: min(a, b, key=lambda v: v - (v >> 31 << 32)),
    "swap": lambda a, b: b,
    "inc": lambda a, b: 0 if a >= b else a + 1,
    "dec": lambda a, b: b if a == 0 or a > b else a - 1,
}


@pytest.mark.parametrize("name", ATOMIC)
@pytest.mark.parametrize("wide", [False, True])
def test_integer_atomics_serve_lanes_in_order(name, wide):
    start = np.array([5, 0xFFFFFFF0, 7, 0x80000000], np.uint32)
    data = ((LANE * 2654435761) >> np.uint32(3)).astype(np.uint32)
    x = np.zeros(8, np.uint32)
    x[0 :: 2 if wide else 1][:4] = start
    sign = 32
    step = 8 if wide else 4
    lines = f"global_atomic_{name}{'_x2' if wide else ''} {'v[6:7]' if wide else 'v6'}, v1, {'v[2:3]' if wide else 'v2'}, s[80:81] sc0\ns_waitcnt vmcnt(0)"  # noqa: E501
    if wide and name in ("smax", "smin"):
        sign = 64
    g = asm.run(lines, {1: (LANE % 4) * step, 2: data, 3: 0}, memory={"x": x})
    state = [int(v) for v in start]
    for lane in range(64):
        assert int(g.V[6, 0, lane]) == state[lane % 4] & 0xFFFFFFFF
        fn = ATOMIC[name] if sign == 32 else {"smax": max, "smin": min}[name]
        state[lane % 4] = fn(state[lane % 4], int(data[lane])) & ((1 << (64 if wide else 32)) - 1)
    got = x.view(np.uint64)[:4] if wide else x[:4]
    assert [int(v) for v in got] == state


def test_compare_and_swap_and_float_atomics():
    x = np.array([3, 3, 0, 0], np.uint32)
    asm.run(
        "global_atomic_cmpswap v1, v[2:3], s[80:81]",
        {1: 0, 2: LANE + 10, 3: np.where(LANE == 0, 3, LANE + 9).astype(np.uint32)},
        memory={"x": x},
    )
    assert int(x[0]) == 73  # every lane finds what the lane before it left
    f = np.zeros(4, np.float32)
    asm.run("global_atomic_add_f32 v1, v2, s[80:81]", {1: (LANE % 2) * 4, 2: asm.f32(*range(64))}, memory={"f": f})
    assert f[:2].tolist() == [float(sum(range(0, 64, 2))), float(sum(range(1, 64, 2)))]
    h = np.zeros(4, np.float16)
    asm.run("global_atomic_pk_add_f16 v1, v2, s[80:81]", {1: 0, 2: int(np.array([1, 2], np.float16).view(np.uint32)[0])}, memory={"h": h})
    assert h[:2].tolist() == [64.0, 128.0]
    d = np.array([1.0, 100.0])
    low, high = asm.f64(*range(64))
    asm.run(
        "global_atomic_max_f64 v1, v[2:3], s[80:81]\nglobal_atomic_min_f64 v1, v[2:3], s[80:81] offset:8",
        {1: 0, 2: low, 3: high},
        memory={"d": d},
    )
    assert d.tolist() == [63.0, 0.0]


def test_lds_atomics():
    g = asm.run(
        "ds_write_b32 v1, v3\ns_waitcnt lgkmcnt(0)\nds_add_rtn_u32 v4, v1, v2\nds_max_i32 v1, v5\nds_read_b32 v6, v1\ns_waitcnt lgkmcnt(0)",
        {1: 0, 2: 1, 3: 0, 5: 50},
    )
    assert sorted(int(x) for x in g.V[4, 0]) == list(range(64))
    assert (g.V[6, 0] == 64).all()


@pytest.mark.parametrize(
    "line",
    [
        "v_unheard_of_b32 v1, v2",
        "v_add_u32_e32 v1, v2, v3 surprise:1",
        "v_add_u32_e32 v1, v2, v3, v4",
        "v_add_f32_e32 v1, v2, q3",
        "global_load_dword v1, v2, s[80:81] strange",
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1",
        "v_mfma_f32_4x4x1_16b_f32 a[0:3], v1, v2, 0",
        "buffer_load_dword v1, v2, s[4:7], 0 idxen",
        "s_getreg_b32 s1, hwreg(HW_REG_HW_ID)",
    ],
)
def test_what_is_not_known_is_refused(line):
    with pytest.raises(NotEmulated, match="not emulated"):
        asm.run(line)
