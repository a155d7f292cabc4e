"""Planted faults in machine code: each is found by its own check, with place and lanes, and by none when the code is right."""

from __future__ import annotations

import numpy as np
import pytest

from kvcheck.agent.emulator.errors import Deadlock, MemoryFault

from . import asm

LANE = np.arange(64, dtype=np.uint32)
X = np.arange(64, dtype=np.uint32)


def kinds(lines, vectors=None, **options):
    found = []
    asm.run(lines, vectors, found=found, **options)
    return [f.kind for f in found]


def test_out_of_bounds_names_tensor_offset_and_lanes():
    with pytest.raises(MemoryFault) as caught:
        asm.run("global_load_dword v2, v1, s[80:81]", {1: LANE * 8}, memory={"x": X.copy(), "y": X.copy()})
    f = caught.value.finding
    assert (f.kind, f.tensor, f.offset, f.size, f.lanes, f.active) == ("out_of_bounds_read", "x", 256, 256, 32, 64)


@pytest.mark.parametrize("offset", [256, 4096, 1 << 20, -4, -4096, (1 << 31) - 4])
def test_a_wild_store_never_lands_in_another_tensor(offset):
    others = {f"t{i}": X.copy() for i in range(4)}
    lines = "v_mov_b32_e32 v2, s82\nv_mov_b32_e32 v3, s83\nv_lshl_add_u64 v[2:3], v[4:5], 0, v[2:3]\nglobal_store_dword v[2:3], v1, off"
    with pytest.raises(MemoryFault) as caught:
        asm.run(lines, {4: offset & 0xFFFFFFFF, 5: 0xFFFFFFFF if offset < 0 else 0}, memory=others)
    assert caught.value.finding.kind == "out_of_bounds_write"
    assert caught.value.finding.tensor == "t1"
    assert caught.value.finding.offset == offset
    assert all((t == X).all() for t in others.values())


def test_lds_out_of_bounds():
    with pytest.raises(MemoryFault, match="lds"):
        asm.run("ds_read_b32 v2, v1", {1: LANE * 4 + 4096 - 128})


def test_lds_read_before_write():
    assert kinds("ds_read_b32 v2, v1\ns_waitcnt lgkmcnt(0)", {1: LANE * 4}) == ["uninitialised_read"]
    assert kinds("ds_write_b32 v1, v1\ns_waitcnt lgkmcnt(0)\nds_read_b32 v2, v1\ns_waitcnt lgkmcnt(0)", {1: LANE * 4}) == []


WRITE_THEN_READ = "ds_write_b32 v1, v1\ns_waitcnt lgkmcnt(0)\n{}\nds_read_b32 v2, v3\ns_waitcnt lgkmcnt(0)"


def test_lds_race_between_waves_needs_a_barrier():
    mine = np.stack([LANE * 4, LANE * 4 + 256])
    crossed = {1: mine, 3: mine[::-1]}
    assert "race" in kinds(WRITE_THEN_READ.format(""), crossed, waves=2)
    assert kinds(WRITE_THEN_READ.format("s_barrier"), crossed, waves=2) == []
    assert kinds(WRITE_THEN_READ.format(""), {1: mine, 3: mine}, waves=2) == []


def test_lds_overwrite_of_what_another_wave_reads_races():
    same = np.stack([LANE * 4, LANE * 4])
    lines = (
        "ds_write_b32 v1, v5\ns_waitcnt lgkmcnt(0)\ns_barrier\nds_read_b32 v2, v1\ns_waitcnt lgkmcnt(0)\n{}\n"
        "ds_write_b32 v1, v5\ns_waitcnt lgkmcnt(0)"
    )
    assert kinds(lines.format(""), {1: same, 5: 3}, waves=2) == ["race"]
    assert kinds(lines.format("s_barrier"), {1: same, 5: 3}, waves=2) == []


def test_equal_values_written_by_two_waves_do_not_race_but_others_do():
    same = np.stack([LANE * 4, LANE * 4])
    assert kinds("ds_write_b32 v1, v5\ns_waitcnt lgkmcnt(0)", {1: same, 5: 7}, waves=2) == []
    assert kinds("ds_write_b32 v1, v5\ns_waitcnt lgkmcnt(0)", {1: same, 5: np.stack([LANE, LANE + 1])}, waves=2) == ["race"]
    assert kinds("ds_write_b8 v1, v5\ns_waitcnt lgkmcnt(0)", {1: np.stack([LANE, LANE + 64]), 5: 1}, waves=2) == []
    assert kinds("ds_write_b8 v1, v5\ns_waitcnt lgkmcnt(0)", {1: np.stack([LANE, LANE]), 5: np.stack([LANE, LANE + 1])}, waves=2) == [
        "race"
    ]


@pytest.mark.parametrize("lines", ["ds_write_b32 v1, v5\ns_waitcnt lgkmcnt(0)", "global_store_dword v1, v5, s[80:81]"])
def test_copies_that_meet_inside_a_wave_race_only_when_waves_leave_different_ones(lines):
    """Two lanes of a wave hold the same sum, an ulp apart, and store it to one place: what the waves leave there is what counts."""
    place, copies = LANE % 32 * 4, np.where(LANE < 32, 1000, 1001).astype(np.uint32)
    turned = np.where(LANE < 32, 1001, 1000).astype(np.uint32)
    memory = {"y": X.copy()}
    assert kinds(lines, {1: np.stack([place, place]), 5: np.stack([copies, copies])}, waves=2, memory=memory) == []
    assert kinds(lines, {1: np.stack([place, place]), 5: np.stack([copies, turned])}, waves=2, memory=memory) == ["race"]


def test_global_race_between_waves():
    same = np.stack([LANE * 4, LANE * 4])
    differs = {1: same, 2: np.stack([LANE, LANE + 1])}
    assert kinds("global_store_dword v1, v2, s[80:81]", differs, waves=2, memory={"y": X.copy()}) == ["race"]
    assert kinds("global_store_dword v1, v2, s[80:81]", {1: same, 2: 5}, waves=2, memory={"y": X.copy()}) == []


@pytest.mark.parametrize(
    ("wait", "fine"), [("", False), ("s_waitcnt vmcnt(1)", False), ("s_waitcnt vmcnt(0)", True), ("s_waitcnt lgkmcnt(0)", False)]
)
def test_a_result_used_before_its_wait(wait, fine):
    lines = f"global_load_dword v2, v1, s[80:81]\n{wait}\nv_add_u32_e32 v3, 1, v2"
    assert kinds(lines, {1: LANE * 4}, memory={"x": X.copy()}) == ([] if fine else ["missing_wait"])


def test_older_loads_are_valid_behind_a_partial_wait():
    lines = "global_load_dword v2, v1, s[80:81]\nglobal_load_dword v3, v1, s[80:81]\ns_waitcnt vmcnt(1)\nv_add_u32_e32 v4, 1, {}"
    assert kinds(lines.format("v2"), {1: LANE * 4}, memory={"x": X.copy()}) == []
    assert kinds(lines.format("v3"), {1: LANE * 4}, memory={"x": X.copy()}) == ["missing_wait"]


def test_scalar_loads_are_valid_only_behind_a_full_wait():
    lines = "s_load_dword s2, s[80:81], 0x0\ns_load_dword s3, s[80:81], 0x4\ns_waitcnt lgkmcnt({})\ns_add_i32 s4, s2, s3"
    assert kinds(lines.format(0), memory={"x": X.copy()}) == []
    assert kinds(lines.format(1), memory={"x": X.copy()}) == ["missing_wait"]


def test_a_wait_is_missing_on_one_path_only():
    lines = (
        "s_cmp_eq_u32 s90, 0\nglobal_load_dword v2, v1, s[80:81]\ns_cbranch_scc1 .LBB0_1\ns_waitcnt vmcnt(0)\n"
        ".LBB0_1:\nv_add_u32_e32 v3, 1, v2"
    )
    assert kinds(lines, {1: LANE * 4}, memory={"x": X.copy()}) == ["missing_wait"]


def test_registers_that_nothing_wrote():
    assert kinds("v_add_u32_e32 v2, v0, v9") == ["uninitialised_register"]
    assert kinds("v_mov_b32_e32 v9, 1\nv_add_u32_e32 v2, v0, v9") == []


def test_a_packed_operation_reads_the_halves_it_selects():
    once = "v_pk_mul_f32 v[2:3], v[4:5], v[4:5] {}"
    assert kinds(once.format("op_sel_hi:[0,0]"), {4: X}) == []
    assert kinds(once.format("op_sel:[1,1] op_sel_hi:[1,1]"), {5: X}) == []
    assert kinds(once.format("op_sel_hi:[0,1]"), {4: X}) == ["uninitialised_register"]


def test_a_barrier_that_is_not_reached_by_all_waves():
    lines = (
        "v_readfirstlane_b32 s2, v0\ns_cmp_eq_u32 s2, 0\ns_cbranch_scc1 .LBB0_2\ns_barrier\n.LBB0_2:\n"
        "s_cbranch_scc1 .LBB0_3\ns_branch .LBB0_4\n.LBB0_3:\ns_branch .LBB0_3\n.LBB0_4:"
    )
    with pytest.raises(Deadlock):
        asm.run(lines, {0: np.stack([LANE, LANE + 64])}, waves=2)
