"""Conversions against torch and numpy: every FP8 code of both families, rounding, saturation, half-precision overflow, packing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from . import asm

CODES = np.arange(256, dtype=np.uint32)
OVFL = 1 << 23


def dtype_of(arch, name):
    fnuz = arch == "gfx942"
    return {"fp8": torch.float8_e4m3fnuz if fnuz else torch.float8_e4m3fn, "bf8": torch.float8_e5m2fnuz if fnuz else torch.float8_e5m2}[
        name
    ]


def same(a, b):
    with np.errstate(invalid="ignore"):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return bool(((a == b) | (np.isnan(a) & np.isnan(b))).all())


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("name", ["fp8", "bf8"])
def test_every_code_decodes_as_torch_does(arch, name):
    want = torch.from_numpy(CODES.astype(np.uint8)).view(dtype_of(arch, name)).float().numpy()
    for k in range(0, 256, 64):
        code = CODES[k : k + 64]
        v = asm.run(
            f"v_cvt_f32_{name}_sdwa v2, v1 src0_sel:BYTE_2\nv_cvt_pk_f32_{name}_e32 v[4:5], v1\nv_cvt_pk_f32_{name}_sdwa v[6:7], v1 src0_sel:WORD_1",  # noqa: E501
            {1: code << 16 | code << 8 | CODES[:64]},
            arch=arch,
        ).F[:, 0]
        assert same(v[2], want[code])
        assert same(v[4], want[CODES[:64]])
        assert same(v[5], want[code])
        assert same(v[6], want[code])


def rounding_inputs(top):
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.standard_normal(200) * s for s in (1e-4, 0.01, 1, 100)] + [np.linspace(-top, top, 224)])
    grid = np.arange(-15, 16) * 2.0**-10
    return np.clip(np.concatenate([x, grid, [0.0, top, -top]]), -top, top).astype(np.float32)


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
@pytest.mark.parametrize("name", ["fp8", "bf8"])
def test_rounding_to_fp8_is_torchs(arch, name):
    dtype = dtype_of(arch, name)
    x = rounding_inputs(torch.finfo(dtype).max)
    want = torch.from_numpy(x).to(dtype).view(torch.uint8).numpy()
    for k in range(0, len(x) - 63, 64):
        part = x[k : k + 64]
        g = asm.run(
            f"v_mov_b32_e32 v3, 0x11223344\nv_cvt_pk_{name}_f32 v3, v1, v2\nv_cvt_pk_{name}_f32 v4, v1, v2 op_sel:[0,0,1]",
            {1: part.view(np.uint32), 2: part[::-1].copy().view(np.uint32)},
            arch=arch,
        )
        assert (g.V[3, 0] & 255 == want[k : k + 64]).all()
        assert (g.V[3, 0] >> 8 & 255 == want[k : k + 64][::-1]).all()
        assert (g.V[3, 0] >> 16 == 0x1122).all()
        assert (g.V[4, 0] >> 16 == g.V[3, 0] & 0xFFFF).all()
        assert (g.V[4, 0] & 0xFFFF == 0).all()


@pytest.mark.parametrize(("arch", "largest", "nan"), [("gfx942", 0x7F, 0x80), ("gfx950", 0x7E, 0x7F)])
def test_out_of_range_saturates_only_with_fp16_ovfl(arch, largest, nan):
    x = asm.f32(1e9, float("inf"), float("nan"), -1e9)
    g = asm.run(
        "v_cvt_pk_fp8_f32 v2, v1, v1\ns_setreg_imm32_b32 hwreg(HW_REG_MODE, 23, 1), 1\nv_cvt_pk_fp8_f32 v3, v1, v1", {1: x}, arch=arch
    ).V[:, 0]
    assert [int(v) & 0x7F if arch == "gfx950" else int(v) & 255 for v in g[2, :3]] == [nan & 0x7F if arch == "gfx950" else nan] * 3
    assert [int(v) & 255 for v in g[3, :4]] == [largest, largest, nan, largest | 0x80]


def test_half_precision_overflow_follows_mode():
    x = asm.f32(70000.0, float("inf"), -1e9, 65519.0)
    plain = asm.run("v_cvt_f16_f32_e32 v2, v1", {1: x}).V[2, 0, :4].astype(np.uint16).view(np.float16)
    clamped = asm.run("v_cvt_f16_f32_e32 v2, v1", {1: x}, mode=0xF0 | OVFL).V[2, 0, :4].astype(np.uint16).view(np.float16)
    assert same(plain, [np.inf, np.inf, -np.inf, 65504])
    assert same(clamped, [65504, np.inf, -65504, 65504])


def test_float_to_integer_truncates_and_saturates():
    x = asm.f32(1.9, -1.9, 3e9, -3e9, float("nan"), 5e9, float("-inf"))
    g = asm.run(
        "v_cvt_i32_f32_e32 v2, v1\nv_cvt_u32_f32_e32 v3, v1\nv_cvt_f64_f32_e32 v[4:5], v1\nv_cvt_i32_f64_e32 v6, v[4:5]\nv_cvt_f32_f64_e32 v7, v[4:5]",  # noqa: E501
        {1: x},
    )
    assert [int(v) for v in g.I[2, 0, :7]] == [1, -1, 2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31)]
    assert [int(v) for v in g.V[3, 0, :7]] == [1, 0, 3000000000, 0, 0, 2**32 - 1, 0]
    assert (g.I[6, 0] == g.I[2, 0]).all()
    assert same(g.F[7, 0], x.view(np.float32))


def test_integer_to_float():
    g = asm.run(
        "v_cvt_f32_i32_e32 v2, v1\nv_cvt_f32_u32_e32 v3, v1\nv_cvt_f64_u32_e32 v[4:5], v1\nv_cvt_f16_i16_e32 v6, v1\nv_cvt_f16_u16_e32 v7, v1",  # noqa: E501
        {1: 0xFFFFFF81},
    )
    assert float(g.F[2, 0, 0]) == -127.0
    assert float(g.F[3, 0, 0]) == float(np.float32(0xFFFFFF81))
    assert float(g.V[6, 0, 0].astype(np.uint16).view(np.float16)) == -127.0
    assert float(g.V[7, 0, 0].astype(np.uint16).view(np.float16)) == float(np.float16(65409))


def test_packed_half_and_bfloat_conversions():
    x = np.concatenate([np.random.default_rng(2).standard_normal(60), [1e-6, 65519.0, np.nan, np.inf]]).astype(np.float32)
    given = {1: x.view(np.uint32), 2: asm.f32(1.0)}
    g = asm.run(
        "v_cvt_pk_bf16_f32 v3, v1, v2\nv_cvt_pk_f16_f32 v4, v1, v2\nv_cvt_pkrtz_f16_f32 v5, v1, v2\nv_cvt_f32_f16_e32 v6, v4\nv_cvt_f32_f16_sdwa v7, v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1",  # noqa: E501
        given,
        arch="gfx950",
    ).V[:, 0]
    bf16 = torch.from_numpy(x).bfloat16().view(torch.int16).numpy().astype(np.int64) & 0xFFFF
    finite = np.isfinite(x)
    assert ((g[3] & 0xFFFF) == bf16)[finite].all()
    assert (g[3] >> 16 == 0x3F80).all()
    with np.errstate(over="ignore"):
        assert same((g[4] & 0xFFFF).astype(np.uint16).view(np.float16), x.astype(np.float16))
    cut = (g[5] & 0xFFFF).astype(np.uint16).view(np.float16).astype(np.float32)
    assert (np.abs(cut[:62]) <= np.abs(x[:62])).all()
    assert (np.abs(cut[:60] - x[:60]) < np.abs(x[:60]) * 2.0**-10 + 2.0**-24).all()
    assert same(g[6].view(np.float32), (g[4] & 0xFFFF).astype(np.uint16).view(np.float16))
    assert (g[7].view(np.float32) == 1.0).all()


@pytest.mark.parametrize("wide", ["f32", "f16", "bf16"])
def test_scaled_conversions(wide):
    scale = asm.f32(4.0)
    lines = f"v_cvt_scalef32_pk_{wide}_fp8 {'v[4:5]' if wide == 'f32' else 'v4'}, v1, v2 op_sel:[1,0]\nv_cvt_scalef32_pk_{wide}_fp4 {'v[6:7]' if wide == 'f32' else 'v6'}, v1, v2 op_sel:[1,0]"  # noqa: E501
    g = asm.run(lines, {1: 0x38405A71, 2: scale}, arch="gfx950").V[:, 0, 0]
    read = {
        "f32": lambda i: g[i : i + 2].view(np.float32),
        "f16": lambda i: g[i : i + 1].view(np.float16),
        "bf16": lambda i: np.array([g[i] << 16, g[i] & 0xFFFF0000], np.uint32).view(np.float32),
    }[wide]
    assert [float(v) for v in read(4)] == [8.0, 4.0]  # 0x40 = 2.0, 0x38 = 1.0
    assert [float(v) for v in read(6)] == [-4.0, 12.0]  # byte 1 is 0x5a: 0xa = -1.0, 0x5 = 3.0


def test_scaled_pack_divides_by_the_scale_and_saturates():
    g = asm.run(
        "v_cvt_scalef32_pk_fp8_f32 v4, v1, v2, v3\nv_cvt_scalef32_pk_bf8_f32 v5, v1, v2, 1.0 op_sel:[0,0,0,1]",
        {1: asm.f32(4.0), 2: asm.f32(1e9), 3: asm.f32(2.0)},
        arch="gfx950",
        mode=0xF0 | OVFL,
    ).V[:, 0, 0]
    assert int(g[4]) & 0xFFFF == 0x7E40
    assert int(g[5]) >> 16 == 0x7B44
