"""Writes tiny stand-in aiter checkouts: the real layout of files and names, and kernels of our own, right or wrong in a known way."""

from __future__ import annotations

from pathlib import Path

KERNEL = '''
import triton
import triton.language as tl


@triton.jit
def {kernel}(
    next_n, q, kv, stride_block, scales, stride_scale, lengths, table, width, weights, out, stride_head, stride_row, max_model_len,
    HEADS: tl.constexpr, DIM: tl.constexpr, TILE: tl.constexpr{block_argument}
):
    """One row of one request, all heads, tile after tile."""
    row = tl.program_id(0)
    request, nth = row // next_n, row % next_n
    length = tl.load(lengths + request)
    heads, dims = tl.arange(0, HEADS), tl.arange(0, DIM)
    queries = tl.load(q + row * HEADS * DIM + heads[:, None] * DIM + dims[None, :])
    weight = tl.load(weights + row * HEADS + heads)
    for start in range(0, length, TILE):
        position = start + tl.arange(0, TILE)
        inside = position <= length - next_n + nth
{address}
        key = tl.load(kv + base[:, None] + dims[None, :], mask=inside[:, None], other=0.0)
        scale = tl.load(scales + scale_at, mask=inside, other=0.0)
        score = tl.maximum(tl.dot(queries, key.T) * scale[None, :], 0.0) * weight[:, None]
        score = tl.where(inside[None, :], score, float("-inf"))
{store}
'''

BY_BLOCK = """
        page = tl.load(table + request * width + position // KVBlockSize, mask=inside, other=0)
        base = page * stride_block + position % KVBlockSize * DIM
        scale_at = page * stride_scale + position % KVBlockSize
"""

BY_TOKEN = """
        page = tl.load(table + request * width + position, mask=inside & (position < width), other=0)
        base = page * stride_block
        scale_at = page * stride_scale
"""

STORE = {
    "heads": """
        where = out + heads[:, None] * stride_head + row * stride_row + position[None, :]
        tl.store(where, score, mask=position[None, :] < max_model_len)
""",
    "sum": """
        tl.store(out + row * stride_row + position, tl.sum(score, axis=0), mask=position < max_model_len)
""",
}

WRAPPER = """
import torch
from aiter import dtypes
from aiter.jit.utils.chip_info import get_gfx
from {kernels} import stand_in_stage1{import_fused}

enable_gluon_pa_mqa_logits = True


def _launch(kernel, q, cache, weights, out, stride_head, stride_row, lengths, table, width, extra):
    batch, next_n, heads, dim = q.shape
    blocks, size = cache.shape[:2]
    flat = cache.view(blocks, -1)
    values, scales = flat[:, : size * dim].view({fp8}), flat[:, size * dim :].view(torch.float32)
    return kernel[(batch * next_n,)](
        next_n, q, values, values.stride(0), scales, scales.stride(0), lengths, table, table.shape[1], weights, out, stride_head,
        stride_row, width, HEADS=heads, DIM=dim, TILE=64, waves_per_eu=2, **extra
    )


def deepgemm_fp8_paged_mqa_logits_stage1({q}, {cache}, weights, {out}, {lengths}, {table}, max_model_len{options}):
    {check}
    _launch(
        stand_in_stage1, {q}, {cache}, weights, {out}, {out}.stride(0), {out}.stride(1), {lengths}, {table}, max_model_len, {blocks}
    )
"""

FUSED = """

def deepgemm_fp8_paged_mqa_logits({q}, {cache}, weights, out_logits, {lengths}, {table}, max_model_len, Preshuffle=False,
                                  KVBlockSize=1, ChunkK=256, TotalCuCount=None, WavePerEU=2):
    assert not enable_gluon_pa_mqa_logits and not Preshuffle and {cache}.size(1) == KVBlockSize and get_gfx()
    compiled = _launch(stand_in_fused, {q}, {cache}, weights, out_logits, 0, out_logits.stride(0), {lengths}, {table}, max_model_len,
                       {blocks})
    return compiled.hash
"""

NAMES = {
    "new": {"q": "q_fp8", "cache": "kv_cache_fp8", "out": "out_qk", "lengths": "context_lens", "table": "kv_indices"},
    "renamed": {"q": "q", "cache": "kv_cache", "out": "out", "lengths": "seq_lens", "table": "block_tables"},
}


def build(root: Path, *, right: bool = True, old_place: bool = False, names: str = "new", fnuz: bool = False, fused: bool = True) -> Path:
    """One checkout.

    Args:
        root: an empty folder.
        right: False plants the mistake of aiter before 8abb3607e9: the block table is looked up by token.
        old_place: files lie where they lay before 4c2a3025b6, and stage1 has no ChunkQ, as before fe927e8d32.
        names: "new" for today's argument names, "renamed" for others.
        fnuz: the FP8 type is written into the wrapper, as in d36601a9d0.
        fused: whether there is a fused entry point.

    Returns:
        root.
    """
    package, inner = root / "aiter", "" if old_place else "attention/"
    kernels = package / f"ops/triton/_triton_kernels/{inner}pa_mqa_logits.py"
    wrapper = package / f"ops/triton/{inner}pa_mqa_logits.py"
    for folder in {kernels.parent, wrapper.parent, package / "jit/utils"}:
        folder.mkdir(parents=True, exist_ok=True)
    for place in ("", "ops/", "ops/triton/", "jit/", "jit/utils/"):
        (package / f"{place}__init__.py").write_text('raise RuntimeError("ROCm version file not found")\n')
    address, block = (BY_BLOCK, ", KVBlockSize: tl.constexpr") if right else (BY_TOKEN, "")
    body = [
        KERNEL.format(kernel=f"stand_in_{name}", address=address.strip("\n"), store=STORE[store].strip("\n"), block_argument=block)
        for name, store in (("stage1", "heads"), ("fused", "sum"))
    ]
    kernels.write_text("\n".join(body))
    named = NAMES[names]
    chunk = "" if old_place else ", ChunkQ=64, ChunkK=256, TotalCuCount=None, WavePerEU=2"
    fill = named | {
        "kernels": "aiter." + kernels.relative_to(package).with_suffix("").as_posix().replace("/", "."),
        "fp8": "torch.float8_e4m3fnuz" if fnuz else "dtypes.fp8",
        "blocks": f"dict(KVBlockSize={named['cache']}.size(1))" if right else "{}",
        "import_fused": ", stand_in_fused" if fused else "",
        "options": chunk,
        "check": "pass" if old_place else f"assert {named['q']}.shape[2] // ChunkQ and {named['q']}.shape[2] % ChunkQ == 0",
    }
    wrapper.write_text((WRAPPER + (FUSED if fused else "")).format(**fill))
    return root
