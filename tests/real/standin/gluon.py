"""Writes a stand-in checkout with Gluon kernels of our own behind aiter's wrapper: names, arguments and switches as at its HEAD."""

from __future__ import annotations

from pathlib import Path

KERNEL = '''
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def stand_in_gluon(
    next_n, q, kv, stride_block, scales, stride_scale, lengths, table, width, weights, out, stride_row, max_model_len,
    HEADS: gl.constexpr, DIM: gl.constexpr, TILE: gl.constexpr, KVBlockSize: gl.constexpr, SHUFFLED: gl.constexpr, VERSION: gl.constexpr
):
    """One row of one request, all heads, tile after tile."""
    gl.static_assert({serves})
    mfma: gl.constexpr = gl.amd.AMDMFMALayout(version=VERSION, instr_shape=[16, 16, 32], transposed=False, warps_per_cta=[1, 1])
    left: gl.constexpr = gl.DotOperandLayout(operand_index=0, parent=mfma, k_width=8)
    right: gl.constexpr = gl.DotOperandLayout(operand_index=1, parent=mfma, k_width=8)
    row = gl.program_id(0)
    request, nth = row // next_n, row % next_n
    length = gl.load(lengths + request)
    head = gl.arange(0, HEADS, layout=gl.SliceLayout(1, left))
    dim = gl.arange(0, DIM, layout=gl.SliceLayout(0, left))
    queries = gl.load(q + row * HEADS * DIM + head[:, None] * DIM + dim[None, :])
    weight = gl.load(weights + row * HEADS + gl.arange(0, HEADS, layout=gl.SliceLayout(1, mfma)))
    byte = gl.arange(0, DIM, layout=gl.SliceLayout(1, right))
    for start in range(0, length, TILE):
        position = start + gl.arange(0, TILE, layout=gl.SliceLayout(0, right))
        inside = position <= length - next_n + nth
        page = gl.load(table + request * width + position // KVBlockSize, mask=inside, other=0)
        token = position % KVBlockSize
        if SHUFFLED:
            there = (byte // 16 * 256 + byte % 16)[:, None] + (token // 16 * 16 * DIM + token % 16 * 16)[None, :]
        else:
            there = byte[:, None] + (token * DIM)[None, :]
        key = gl.load(kv + (page * stride_block)[None, :] + there, mask=inside[None, :], other=0.0)
        score = gl.amd.cdna3.mfma(queries, key, gl.zeros((HEADS, TILE), dtype=gl.float32, layout=mfma))
        column = start + gl.arange(0, TILE, layout=gl.SliceLayout(0, mfma))
        valid = column <= length - next_n + nth
        column_page = gl.load(table + request * width + column // KVBlockSize, mask=valid, other=0)
        scale = gl.load(scales + column_page * stride_scale + column % KVBlockSize, mask=valid, other=0.0)
        score = gl.maximum(score * scale[None, :], 0.0) * weight[:, None]
        logits = gl.where(valid, gl.sum(score, axis=0), float("-inf"))
        gl.store(out + row * stride_row + column, logits, mask=column < max_model_len)
'''

WRAPPER = """
import functools
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource
from aiter import dtypes
from aiter.jit.utils.chip_info import get_cu_num, get_gfx
from aiter.ops.triton.gluon.pa_mqa_logits import stand_in_gluon
from aiter.ops.triton.utils._triton.arch_info import get_arch

enable_gluon_pa_mqa_logits = get_gfx() in ("gfx942", "gfx950")
enable_jit_gluon_pa_mqa_logits_kernel = {jit}


@functools.cache
def _compile_deepgemm_fp8_paged_mqa_logits(ChunkQ, ChunkK, Preshuffle, KVBlockSize, HiddenDim, is_padded_mode, VarCtxOpt=False):
    assert get_arch() == get_gfx()
    gfx, fp8 = get_gfx(), "*fp8e4b8" if get_gfx() == "gfx942" else "*fp8e4nv"
    types = ["i32", fp8, fp8, "i32", "*fp32", "i32", "*i32", "*i32", "i32", "*fp32", "*fp32", "i32", "i32"]
    signature = dict(zip(stand_in_gluon.arg_names, types + ["constexpr"] * 6))
    values = dict(HEADS=ChunkQ, DIM=HiddenDim, TILE=64, KVBlockSize=KVBlockSize, SHUFFLED={shuffled}, VERSION=3 if gfx == "gfx942" else 4)
    options = dict(num_warps=1, warp_size=64, arch=gfx, backend_name="hip")
    return triton.compile(GluonASTSource(stand_in_gluon, signature, values), target=GPUTarget("hip", gfx, 64), options=options)


def deepgemm_fp8_paged_mqa_logits_schedule(batch_size, next_n, context_lens, max_model_len, ChunkK=256, TotalCuCount=None, WavePerEU=2):
    return torch.full((1,), get_cu_num(), device="cuda", dtype=torch.int32)


def deepgemm_fp8_paged_mqa_logits(q_fp8, kv_cache, weights, out_logits, context_lens, kv_indices, max_model_len, Preshuffle=False,
                                  KVBlockSize=1, ChunkK=256, TotalCuCount=None, WavePerEU=2, VarCtxSchedule=None):
    assert enable_gluon_pa_mqa_logits and kv_cache.size(1) == KVBlockSize
    assert VarCtxSchedule is None or VarCtxSchedule.tolist() == [get_cu_num()]
    batch, next_n, heads, dim = q_fp8.shape
    flat = kv_cache.view(kv_cache.shape[0], -1)
    values, scales = flat[:, : KVBlockSize * dim].view(dtypes.fp8), flat[:, KVBlockSize * dim :].view(torch.float32)
    kernel = _compile_deepgemm_fp8_paged_mqa_logits(
        ChunkQ=heads, ChunkK=ChunkK, Preshuffle=Preshuffle, KVBlockSize=KVBlockSize, HiddenDim=dim,
        is_padded_mode=values.stride(0) % 16 == 0, VarCtxOpt=VarCtxSchedule is not None,
    )
    kernel[(batch * next_n, 1, 1)](
        next_n, q_fp8, values, values.stride(0), scales, scales.stride(0), context_lens, kv_indices, kv_indices.shape[1], weights,
        out_logits, out_logits.stride(0), max_model_len, heads, dim, 64, KVBlockSize, Preshuffle, 0,
    )
    return kernel.hash
"""

ARCH_INFO = """
import triton

def get_arch():
    return triton.runtime.driver.active.get_current_target().arch
"""


def build(root: Path, *, right: bool = True, serves: str = "HEADS >= 32", jit: bool = True) -> Path:
    """One checkout.

    Args:
        root: an empty folder.
        right: False plants the mistake of a shuffled cache that is read as a flat one.
        serves: the tiles that the kernel compiles for, as Python over its constants.
        jit: False: the wrapper would load code objects built beforehand.

    Returns:
        root.
    """
    package = root / "aiter"
    files = {
        "ops/triton/gluon/pa_mqa_logits.py": KERNEL.replace("{serves}", serves),
        "ops/triton/attention/pa_mqa_logits.py": WRAPPER.replace("{jit}", str(jit)).replace(
            "{shuffled}", "Preshuffle" if right else "False"
        ),
        "ops/triton/utils/_triton/arch_info.py": ARCH_INFO,
    }
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    (package / "__init__.py").write_text('raise RuntimeError("ROCm version file not found")\n')
    return root
