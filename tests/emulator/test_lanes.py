"""Instructions that move data between lanes: DPP, permutes, swizzles, swaps, lane reads and writes."""

from __future__ import annotations

import numpy as np
import pytest

from . import asm

LANE = np.arange(64, dtype=np.uint32)


def dpp(control, execute=(1 << 64) - 1, old=1000):
    return [int(x) for x in asm.run(f"v_mov_b32_dpp v2, v1 {control}", {1: LANE, 2: old}, execute=execute).V[2, 0]]


@pytest.mark.parametrize(
    ("control", "source"),
    [
        ("row_shr:3", lambda i: i - 3 if i % 16 >= 3 else None),
        ("row_shl:2", lambda i: i + 2 if i % 16 < 14 else None),
        ("row_ror:5", lambda i: i // 16 * 16 + (i - 5) % 16),
        ("quad_perm:[1,0,3,2]", lambda i: i ^ 1),
        ("row_mirror", lambda i: i // 16 * 16 + 15 - i % 16),
        ("row_half_mirror", lambda i: i // 8 * 8 + 7 - i % 8),
        ("row_bcast:15", lambda i: i // 16 * 16 - 1 if i >= 16 else None),
        ("row_bcast:31", lambda i: 31 if i >= 32 else None),
        ("row_newbcast:4", lambda i: i // 16 * 16 + 4),
        ("wave_shr:1", lambda i: i - 1 if i else None),
        ("wave_rol:1", lambda i: (i + 1) % 64),
    ],
)
def test_dpp_sources(control, source):
    want = [source(i) for i in range(64)]
    assert dpp(control + " row_mask:0xf bank_mask:0xf") == [1000 if w is None else w for w in want]
    assert dpp(control + " row_mask:0xf bank_mask:0xf bound_ctrl:1") == [0 if w is None else w for w in want]


def test_dpp_row_and_bank_masks_keep_the_old_value():
    got = dpp("row_shl:0 row_mask:0xa bank_mask:0x3")
    assert got == [i if (i // 16) in (1, 3) and (i % 16) // 4 in (0, 1) else 1000 for i in range(64)]


def test_dpp_does_not_read_switched_off_lanes():
    assert dpp("quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf", execute=0b0111)[:4] == [1, 0, 1000, 1000]
    assert dpp("quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf bound_ctrl:1", execute=0b0111)[:4] == [1, 0, 0, 1000]


def test_dpp_in_place_reads_before_it_writes():
    got = asm.run("v_add_f32_dpp v1, v1, v1 row_shr:1 row_mask:0xf bank_mask:0xf", {1: asm.f32(*range(64))}).F[1, 0]
    assert [float(x) for x in got[:18]] == [0.0] + [2.0 * i - 1 for i in range(1, 16)] + [16.0, 33.0]


@pytest.mark.parametrize("span", [16, 32])
def test_permlane_swap(span):
    g = asm.run(f"v_permlane{span}_swap_b32_e32 v1, v2", {1: LANE, 2: LANE + 100}, arch="gfx950").V[:, 0]
    for i in range(64):
        low = (i // span) % 2 == 0
        assert int(g[1, i]) == (i if low else i - span + 100)
        assert int(g[2, i]) == (i + span if low else i + 100)


def test_bpermute_pulls_and_permute_pushes():
    g = asm.run("ds_bpermute_b32 v3, v2, v1\nds_permute_b32 v4, v2, v1\ns_waitcnt lgkmcnt(0)", {1: LANE, 2: (63 - LANE) * 4 + 256}).V[:, 0]
    assert (g[3] == 63 - LANE).all()
    assert (g[4] == 63 - LANE).all()
    off = asm.run("ds_bpermute_b32 v3, v2, v1", {1: LANE + 1, 2: 4 * (LANE ^ 1)}, execute=0b0110).V[3, 0]
    assert [int(x) for x in off[:4]] == [0, 0, 0, 0]  # both neighbours are switched off


@pytest.mark.parametrize(
    ("mode", "source"),
    [
        ("SWAP,16", lambda i: i ^ 16),
        ("SWAP,1", lambda i: i ^ 1),
        ("REVERSE,8", lambda i: i ^ 7),
        ("BROADCAST,4,2", lambda i: (i & ~3) + 2),
        ("QUAD_PERM,3,2,1,0", lambda i: i ^ 3),
        ('BITMASK_PERM,"01pip"', lambda i: (i & 32) | 8 | (i & 4) | (~i & 2) | (i & 1)),
    ],
)
def test_swizzle_modes(mode, source):
    assert [int(x) for x in asm.run(f"ds_swizzle_b32 v2, v1 offset:swizzle({mode})", {1: LANE}).V[2, 0]] == [source(i) for i in range(64)]


def test_swizzle_by_number():
    assert [int(x) for x in asm.run("ds_swizzle_b32 v2, v1 offset:0x401f", {1: LANE}).V[2, 0]] == [i ^ 16 for i in range(64)]


def test_lane_reads_and_writes():
    lines = "v_readfirstlane_b32 s4, v1\nv_readlane_b32 s5, v1, 63\nv_readlane_b32 s6, v1, s2\nv_writelane_b32 v1, s2, 3"
    g = asm.run(lines, {1: LANE + 7}, {2: 5}, execute=0xF0)
    assert [int(g.S[i, 0]) for i in (4, 5, 6)] == [11, 70, 12]
    assert int(g.V[1, 0, 3]) == 5


def test_mbcnt_numbers_lanes():
    g = asm.run("v_mbcnt_lo_u32_b32 v1, -1, 0\nv_mbcnt_hi_u32_b32 v1, -1, v1\nv_mbcnt_lo_u32_b32 v2, s2, 10", scalars={2: 0x0F})
    assert (g.V[1, 0] == LANE).all()
    assert [int(x) for x in g.V[2, 0, :6]] == [10, 11, 12, 13, 14, 14]


def test_swap():
    g = asm.run("v_swap_b32 v1, v2", {1: 5, 2: 6}, execute=1).V[:, 0]
    assert [int(g[1, 0]), int(g[2, 0]), int(g[1, 1]), int(g[2, 1])] == [6, 5, 5, 6]


def test_waves_part_and_meet_again():
    lines = """v_readfirstlane_b32 s2, v1
               s_mov_b32 s3, 0
               .LBB0_1:
               s_add_i32 s3, s3, s2
               s_add_i32 s2, s2, -1
               s_cmp_lg_u32 s2, 0
               s_cbranch_scc1 .LBB0_1
               s_barrier
               v_mov_b32_e32 v2, s3"""
    start = np.stack([np.full(64, n, np.uint32) for n in (1, 4, 2, 9)])
    assert [int(x) for x in asm.run(lines, {1: start}, waves=4).V[2, :, 0]] == [1, 10, 3, 45]
