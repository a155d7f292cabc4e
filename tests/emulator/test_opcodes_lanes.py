"""Instructions between lanes, carries, accumulator moves, transposing and direct LDS loads, control: each by its definition."""

from __future__ import annotations

import numpy as np
import pytest

from . import asm, opcodes

LANE = np.arange(64, dtype=np.uint32)
SOME = opcodes.SOME
M32, M64 = (1 << 32) - 1, (1 << 64) - 1
ON = [bool(SOME >> i & 1) for i in range(64)]


def run(line, vectors=None, arch="gfx942", **keywords):
    opcodes.assemble(line, arch)
    return asm.run(line, vectors, arch=arch, **keywords)


@pytest.mark.parametrize(
    "mnemonic", ["v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32", "v_accvgpr_read", "v_accvgpr_write"]
)
def test_accumulator_moves(mnemonic):
    source, target = ("a5", "v7") if "read" in mnemonic else ("v5", "a7") if "write" in mnemonic else ("a5", "a7")
    number = {"v5": 5, "v7": 7, "a5": 261, "a7": 263}
    g = run(f"{mnemonic} {target}, {source}", {number[source]: LANE * 3, number[target]: 9}, execute=SOME)
    assert g.V[number[target], 0].tolist() == [3 * i if ON[i] else 9 for i in range(64)]
    assert not g.V[263 - 256 if target[0] == "a" else 263].any()


CARRY = {
    "v_add_co_u32": lambda x, y, c: x + y,
    "v_sub_co_u32": lambda x, y, c: x - y,
    "v_subrev_co_u32": lambda x, y, c: y - x,
    "v_addc_co_u32": lambda x, y, c: x + y + c,
    "v_subb_co_u32": lambda x, y, c: x - y - c,
    "v_subbrev_co_u32": lambda x, y, c: y - x - c,
}


@pytest.mark.parametrize("mnemonic", CARRY)
@pytest.mark.parametrize("execute", [M64, SOME])
def test_carries(mnemonic, execute):
    with_carry = "addc" in mnemonic or "subb" in mnemonic
    x, y = (opcodes.place(c, execute) for c in opcodes.columns(["u32", "u32"]))
    into = 0x5A5A_0F0F_C3C3_9999
    line = f"s_mov_b32 s4, {hex(into & M32)}\ns_mov_b32 s5, {hex(into >> 32)}\n{mnemonic}_e64 v9, s[2:3], v1, v2" + (
        ", s[4:5]" if with_carry else ""
    )
    g = run(line, {1: x, 2: y, 9: 7}, execute=execute, waves=len(x))
    out = g.mask(2)
    for wave in range(len(x)):
        for lane in range(64):
            if not execute >> lane & 1:
                assert (int(g.V[9, wave, lane]), bool(out[wave, lane])) == (7, False)
                continue
            total = CARRY[mnemonic](int(x[wave, lane]), int(y[wave, lane]), into >> lane & 1)
            assert (int(g.V[9, wave, lane]), bool(out[wave, lane])) == (total & M32, not 0 <= total <= M32)


@pytest.mark.parametrize("mnemonic", ["v_mad_u64_u32", "v_mad_i64_i32"])
def test_wide_multiply_add(mnemonic):
    kind = mnemonic[-3:]
    a, b, c = opcodes.columns([kind, kind, f"{kind[0]}64"], opcodes.EDGES | {kind: opcodes.EDGES[kind][:7]})
    placed = [opcodes.place(v, SOME) for v in (a, b, c)]
    low, high = opcodes.words(placed[2])
    g = run(
        f"{mnemonic} v[8:9], s[2:3], v1, v2, v[4:5]",
        {1: placed[0].view(np.uint32), 2: placed[1].view(np.uint32), 4: low, 5: high, 8: 7},
        execute=SOME,
        waves=len(low),
    )
    lanes = opcodes.active(SOME)
    got, carry = opcodes.read(g, 8, "u64")[:, lanes].reshape(-1), g.mask(2)[:, lanes].reshape(-1)
    for k in range(len(a)):
        total = int(a[k]) * int(b[k]) + int(c[k])
        assert int(got[k]) == total & M64
        assert bool(carry[k]) == bool(total >> 64 & 1), (a[k], b[k], c[k])
    assert (g.V[8][:, [i for i in range(64) if not ON[i]]] == 7).all()


@pytest.mark.parametrize("mnemonic", ["v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32"])
@pytest.mark.parametrize("mask", [0, M32, 0x0F0F5A5A])
def test_mask_counts(mnemonic, mask):
    g = run(f"{mnemonic} v3, v1, v2", {1: mask, 2: LANE * 100, 3: 7}, execute=SOME)
    for lane in range(64):
        below = (1 << lane) - 1 if "lo" in mnemonic else ((1 << lane) - 1) >> 32
        assert int(g.V[3, 0, lane]) == ((mask & below & M32).bit_count() + 100 * lane if ON[lane] else 7)


@pytest.mark.parametrize("mnemonic", ["v_readfirstlane_b32"])
@pytest.mark.parametrize(("execute", "lane"), [(M64, 0), (1 << 63, 63), (0xF0, 4), (0, 0)])
def test_first_lane(mnemonic, execute, lane):
    assert int(run(f"{mnemonic} s20, v1", {1: LANE + 5}, execute=execute).S[20, 0]) == lane + 5


@pytest.mark.parametrize("mnemonic", ["v_readlane_b32"])
def test_read_a_lane_even_if_switched_off(mnemonic):
    for lane in (0, 1, 13, 63, 64 + 5):
        assert int(run(f"{mnemonic} s20, v1, s2", {1: LANE * 2}, scalars={2: lane}, execute=1).S[20, 0]) == 2 * (lane % 64)


@pytest.mark.parametrize("mnemonic", ["v_writelane_b32"])
def test_write_a_lane_even_if_switched_off(mnemonic):
    for value, lane, where in (("s3", "0", 0), ("s3", "13", 13), ("s3", "63", 63), ("5", "s2", 33), ("s3", "m0", 7)):
        g = run(f"s_movk_i32 m0, 0x47\n{mnemonic} v1, {value}, {lane}", {1: LANE * 2}, scalars={2: 33, 3: 5}, execute=1)
        assert g.V[1, 0].tolist() == [5 if i == where else 2 * i for i in range(64)]


@pytest.mark.parametrize("mnemonic", ["v_swap_b32"])
def test_swap(mnemonic):
    g = run(f"{mnemonic} v1, v2", {1: LANE, 2: LANE + 100}, execute=SOME)
    assert g.V[1, 0].tolist() == [i + 100 * ON[i] for i in range(64)]
    assert g.V[2, 0].tolist() == [i + 100 * (not ON[i]) for i in range(64)]


@pytest.mark.parametrize("mnemonic", ["v_permlane16_swap_b32", "v_permlane32_swap_b32"])
def test_rows_are_swapped(mnemonic):
    """Odd rows of the first with even rows of the second; a row is 16 lanes, or 32."""
    span = int(mnemonic[10:12])
    g = run(f"{mnemonic} v1, v2", {1: LANE, 2: LANE + 100}, arch="gfx950")
    first = [i if i // span % 2 == 0 else i - span + 100 for i in range(64)]
    second = [i + span if i // span % 2 == 0 else i + 100 for i in range(64)]
    assert (g.V[1, 0].tolist(), g.V[2, 0].tolist()) == (first, second)


@pytest.mark.parametrize("mnemonic", ["ds_bpermute_b32", "ds_permute_b32"])
def test_permutes(mnemonic):
    to = (LANE * 7 + 3) % 64
    g = run(f"{mnemonic} v3, v2, v1 offset:4\ns_waitcnt lgkmcnt(0)", {1: LANE + 1000, 2: to * 4 + 256, 3: 7}, execute=SOME)
    if mnemonic == "ds_bpermute_b32":
        want = [(int((to[i] + 1) % 64) + 1000) * ON[int((to[i] + 1) % 64)] if ON[i] else 7 for i in range(64)]
    else:
        sent = {int((to[i] + 1) % 64): i + 1000 for i in range(64) if ON[i]}
        want = [sent.get(i, 0) if ON[i] else 7 for i in range(64)]
    assert g.V[3, 0].tolist() == want


@pytest.mark.parametrize("mnemonic", ["ds_swizzle_b32"])
@pytest.mark.parametrize("offset", [0x801B, 0x401F, 0x001C, 0x03E0])
def test_swizzle(mnemonic, offset):
    """Bit 15: four lanes by quad_perm; otherwise and, or, xor masks on five bits of the lane number."""
    g = run(f"{mnemonic} v3, v1 offset:{hex(offset)}\ns_waitcnt lgkmcnt(0)", {1: LANE + 1000, 3: 7}, execute=SOME)
    for i in range(64):
        if offset & 0x8000:
            source = i & ~3 | offset >> 2 * (i & 3) & 3
        else:
            source = i & 32 | ((i & offset & 31) | offset >> 5 & 31) ^ (offset >> 10 & 31)
        assert int(g.V[3, 0, i]) == ((source + 1000) * ON[source] if ON[i] else 7)


@pytest.mark.parametrize("mnemonic", ["ds_read_b64_tr_b16", "ds_read_b64_tr_b8", "ds_read_b64_tr_b4"])
def test_transposing_read(mnemonic):
    """Sixteen lanes read 128 bytes, rows of 16 elements; a lane gets a column."""
    bits = int(mnemonic.rsplit("b", 1)[1])
    tile = np.random.default_rng(1).integers(0, 1 << bits, (4, 64 // bits, 16))
    raw = np.packbits((tile.reshape(-1, 1) >> np.arange(bits) & 1).astype(np.uint8).reshape(-1), bitorder="little").view(np.uint32)
    line = f"{mnemonic} v[4:5], v1"
    opcodes.assemble(line, "gfx950")
    g = asm.run(
        f"ds_write_b64 v1, v[2:3]\ns_waitcnt lgkmcnt(0)\n{line}\ns_waitcnt lgkmcnt(0)",
        {1: LANE * 8, 2: raw[0::2], 3: raw[1::2]},
        arch="gfx950",
    )
    for lane in range(64):
        word = int(g.V[4, 0, lane]) | int(g.V[5, 0, lane]) << 32
        assert [word >> bits * k & ((1 << bits) - 1) for k in range(64 // bits)] == tile[lane // 16, :, lane % 16].tolist()


@pytest.mark.parametrize(
    "mnemonic",
    [
        "global_load_lds_dword",
        "global_load_lds_dwordx3",
        "global_load_lds_dwordx4",
        "buffer_load_dword",
        "buffer_load_dwordx3",
        "buffer_load_dwordx4",
    ],
)
def test_loads_straight_into_lds(mnemonic):
    """Lane i's words go to M0 + offset + i * size, whatever the address they come from."""
    n = int(mnemonic.partition("dwordx")[2] or 1)
    data = np.arange(1024, dtype=np.uint32) * np.uint32(0x01010101)
    at = (63 - LANE) * 4 * n
    line = f"{mnemonic} v1, s[80:81] offset:16" if mnemonic.startswith("global") else f"{mnemonic} v1, s[4:7], 0 offen offset:16 lds"
    opcodes.assemble(line, "gfx950")
    prepare = "s_mov_b64 s[4:5], s[80:81]\ns_mov_b32 s6, 4096\ns_mov_b32 s7, 0x27000\ns_movk_i32 m0, 0x100\n"
    back = "".join(f"ds_read_b32 v{10 + k}, v2 offset:{0x100 + 16 + 4 * k}\n" for k in range(n))
    g = asm.run(
        f"{prepare}{line}\ns_waitcnt vmcnt(0)\n{back}s_waitcnt lgkmcnt(0)", {1: at, 2: LANE * 4 * n}, memory={"x": data}, arch="gfx950"
    )
    for k in range(n):
        assert (g.V[10 + k, 0] == data[at // 4 + 4 + k]).all()


BRANCH = {
    "s_cbranch_scc0": (lambda v: f"s_cmp_eq_u32 {v}, 1", 0),
    "s_cbranch_scc1": (lambda v: f"s_cmp_eq_u32 {v}, 1", 1),
    "s_cbranch_vccz": (lambda v: f"s_mov_b32 vcc_lo, 0\ns_mov_b32 vcc_hi, {v}", 0),
    "s_cbranch_vccnz": (lambda v: f"s_mov_b32 vcc_lo, 0\ns_mov_b32 vcc_hi, {v}", 1),
    "s_cbranch_execz": (lambda v: f"s_mov_b32 exec_lo, 0\ns_mov_b32 exec_hi, {v}", 0),
    "s_cbranch_execnz": (lambda v: f"s_mov_b32 exec_lo, 0\ns_mov_b32 exec_hi, {v}", 1),
}


@pytest.mark.parametrize("mnemonic", BRANCH)
def test_branches_part_waves_by_their_condition(mnemonic):
    set_, taken_when = BRANCH[mnemonic]
    line = f"s_movk_i32 s3, 1\n{set_('s2')}\n{mnemonic} .LBB0_1\ns_movk_i32 s3, 2\n.LBB0_1:\ns_nop 0"
    opcodes.assemble(line, "gfx942")
    g = asm.run(line, scalars={2: np.array([0, 1, 1, 0], np.uint32)}, waves=4)
    assert g.S[3].tolist() == [1 if v == taken_when else 2 for v in (0, 1, 1, 0)]


@pytest.mark.parametrize("mnemonic", ["s_branch"])
def test_branch(mnemonic):
    assert int(run(f"s_movk_i32 s3, 1\n{mnemonic} .LBB0_1\ns_movk_i32 s3, 2\n.LBB0_1:\ns_nop 0").S[3, 0]) == 1


QUIET = [
    "s_nop 3",
    "s_sleep 1",
    "s_setprio 2",
    "s_icache_inv",
    "s_dcache_inv",
    "s_dcache_wb",
    "s_sethalt 0",
    "buffer_wbl2 sc1",
    "buffer_inv sc0 sc1",
    "s_waitcnt vmcnt(3) lgkmcnt(0)",
]


@pytest.mark.parametrize(("mnemonic", "line"), [(q.split()[0], q) for q in QUIET])
def test_nothing_is_changed(mnemonic, line):
    given = {1: LANE, 257: LANE + 1}
    g = run(line, given, scalars={9: 5}, scc=True)
    assert (g.V[1, 0] == LANE).all()
    assert (g.V[257, 0] == LANE + 1).all()
    assert int(g.S[9, 0]) == 5
    assert g.scc.all()
    assert int(g.s64(126)[0]) == M64
    assert np.count_nonzero(g.V) == 63 + 64


@pytest.mark.parametrize("mnemonic", ["s_barrier", "s_endpgm"])
def test_barrier_orders_waves(mnemonic):
    """The second wave reads what the first wrote before the barrier; an end stops a wave where it stands."""
    write = "v_lshlrev_b32_e32 v3, 2, v1\nds_write_b32 v3, v2\ns_waitcnt lgkmcnt(0)\ns_barrier\n"
    line = f"{write}ds_read_b32 v4, v5\ns_waitcnt lgkmcnt(0)\n{mnemonic}\ns_nop 0"
    where = np.stack([LANE, LANE + 64])
    g = run(line, {1: where, 2: where * 5, 5: where[::-1] * 4}, waves=2)
    assert (g.V[4] == where[::-1] * 5).all()


@pytest.mark.parametrize("mnemonic", ["s_setreg_imm32_b32"])
def test_mode_bits(mnemonic):
    assert run(f"{mnemonic} hwreg(HW_REG_MODE, 23, 1), 1").mode == 0xF0 | 1 << 23
    assert run(f"{mnemonic} hwreg(HW_REG_MODE, 23, 1), 0", mode=0xF0 | 1 << 23).mode == 0xF0
    for refused in ("hwreg(HW_REG_MODE, 0, 2), 1", "hwreg(HW_REG_MODE, 4, 4), 0", "hwreg(HW_REG_MODE, 5, 1), 0"):
        with pytest.raises(Exception, match="not emulated"):
            asm.run(f"{mnemonic} {refused}")
