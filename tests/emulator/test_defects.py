"""What other emulators got wrong on Triton's code, where no other test of this folder has it by name; and what newer Tritons emit."""

from __future__ import annotations

import numpy as np
import pytest

from kvcheck.agent.emulator.errors import NotEmulated
from kvcheck.agent.emulator.launch import user_scalars
from kvcheck.agent.emulator.text import parse

from . import asm, opcodes

LANE = np.arange(64, dtype=np.uint32)
F16, F32 = np.float16, np.float32


@pytest.mark.parametrize("register", [1, 127, 128, 200, 255])
def test_sixteen_bit_operations_on_high_registers(register):
    """The number of a register is 8 bits in the text, not 7 and a half select."""
    line = f"v_add_u16_e32 v{register}, 1, v{register}\nv_pk_add_u16 v3, v{register}, v{register}"
    opcodes.assemble(line, "gfx942")
    g = asm.run(line, {register: LANE, register - 128 if register >= 128 else register + 100: 7}).V[:, 0]
    assert (g[register] == LANE + 1).all()
    assert (g[3] == 2 * (LANE + 1)).all()
    assert (g[register - 128 if register >= 128 else register + 100] == 7).all()


def test_memory_instructions_with_accumulators():
    """Loads write them, stores and LDS writes read them; the vector registers of the same number are others."""
    lines = """global_load_dwordx2 a[2:3], v1, s[80:81]
               s_waitcnt vmcnt(0)
               ds_write_b64 v1, a[2:3]
               s_waitcnt lgkmcnt(0)
               ds_read_b64 a[6:7], v1
               s_waitcnt lgkmcnt(0)
               global_store_dwordx2 v1, a[6:7], s[82:83]
               buffer_load_dword a8, v1, s[4:7], 0 offen
               s_waitcnt vmcnt(0)
               scratch_store_dword off, a8, off
               scratch_load_dword a9, off, off
               s_waitcnt vmcnt(0)"""
    opcodes.assemble(lines, "gfx942")
    data, out = np.arange(128, dtype=np.uint32) * np.uint32(77), np.zeros(128, np.uint32)
    start = "s_mov_b64 s[4:5], s[80:81]\ns_mov_b32 s6, 512\ns_mov_b32 s7, 0x27000\n"
    g = asm.run(start + lines, {1: LANE * 8, 2: 5, 3: 6, 6: 5, 7: 6}, memory={"x": data, "y": out}, scratch=16)
    assert (out == data).all()
    assert (g.V[256 + 9, 0] == data[0::2]).all()
    assert [int(g.V[i, 0, 9]) for i in (2, 3, 6, 7)] == [5, 6, 5, 6]


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_half_precision_specials_in_matrix_products(arch):
    """Infinities, NaN, denormals and both zeros keep their values; inf * 0 and inf - inf are NaN."""
    special = [np.inf, -np.inf, np.nan, 2.0**-24, -(2.0**-15), 0.0, -0.0, 65504.0]
    a = np.zeros((32, 8), F32)
    a[:8, 0] = special
    a[8, :2] = np.inf, -np.inf
    b = np.ones((32, 8), F32)
    b[1, :] = 0
    words = [np.concatenate([m[:, :4], m[:, 4:]]).astype(F16).view(np.uint32).T for m in (a, b)]
    line = "v_mfma_f32_32x32x8_f16 v[32:47], v[0:1], v[2:3], 0"
    g = asm.run(line, {0: words[0][0], 1: words[0][1], 2: words[1][0], 3: words[1][1]}, arch=arch).F[32:48, 0]
    for row, value in enumerate([*special, np.nan]):
        v, lane = row % 4 + 4 * (row // 8), 32 * (row // 4 % 2)
        for column in (0, 1, 31):
            want = F32(value) if column != 1 else F32(0 if np.isfinite(value) else np.nan)
            assert g[v, lane + column] == want or (np.isnan(want) and np.isnan(g[v, lane + column])), (row, column)


@pytest.mark.parametrize("target", ["amdgcn-amd-amdhsa--gfx950", "amdgpu9.50-amd-amdhsa-unknown-gfx950"])
def test_the_target_in_the_text_of_every_triton(target):
    text = asm.TEXT.format(arch="X", body="\ts_nop 0", scratch=0).replace("amdgcn-amd-amdhsa--X", target)
    assert parse(text).arch == "gfx950"
    with pytest.raises(NotEmulated, match="target"):
        parse(text.replace(".amdgcn_target", ".other"))


def test_user_scalars_are_in_the_order_of_the_abi():
    block = np.arange(64, dtype=np.uint8)
    plain = user_scalars(block, {})
    assert len(plain) == 2
    enabled = {f"user_sgpr_{n}": 1 for n in ("dispatch_ptr", "queue_ptr", "kernarg_segment_ptr", "dispatch_id")}
    out = user_scalars(block, enabled | {"user_sgpr_kernarg_preload_length": 2})
    assert out[:4].tolist() == [0] * 4
    assert out[4:6].tolist() == plain.tolist()
    assert out[8:].tolist() == block.view(np.uint32)[:2].tolist()


def test_a_scalar_that_nobody_wrote_may_be_saved_but_not_used():
    found: list = []
    asm.run("v_writelane_b32 v1, s101, 3", {1: 0}, found=found)
    assert not found
    asm.run("s_add_u32 s2, s101, s101", found=found)
    assert [f.kind for f in found] == ["uninitialised_register"]
