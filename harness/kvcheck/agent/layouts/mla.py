"""A token of the latent cache of absorbed MLA: the latent first, the rotated part last.

    kv_cache [num_pages, page_size, 1, row_bytes] uint8. A slot's row, by kv_format (head_dim = latent + rope, latent = head_dim_v):

        kv_format        bytes                 content
        bf16, fp16       2 * dim, 2 * dim + 1  little-endian number of the dim; row_bytes = 2 * head_dim
        e4m3fn, e4m3fnuz dim                   FP8 code of the dim; the number is code * kv_scale; row_bytes = head_dim
        fp8_656          0 .. 511              e4m3fn codes of the latent
                         512 .. 527            four little-endian fp32 scales, one for each 128 dims
                         528 .. 655            64 bf16 numbers, the rotated part; row_bytes = 656

A number of fp8_656's latent is code * scale rounded to bf16 (nearest even), as the kernels that read it multiply bf16.
Source: deepseek-ai/FlashMLA@9241ae3 tests/quant.py; ROCm/aiter@e4048607a5 aiter/mla.py.
"""

from __future__ import annotations

from typing import Any

from kvcheck.agent.layouts import fp8

LATENT, ROPE, GROUP = 512, 64, 128
"""Sizes of fp8_656: latent and rotated dims, latent dims under one scale."""

SCALED = LATENT + 4 * (LATENT // GROUP)


def row_bytes(kv_format: str, head_dim: int) -> int:
    """Bytes of a slot.

    Raises:
        ValueError: fp8_656 holds 512 + 64 dims and no others.
    """
    if kv_format == "fp8_656":
        if head_dim != LATENT + ROPE:
            raise ValueError(f"kv_format fp8_656 holds {LATENT} + {ROPE} dims; head_dim is {head_dim}")
        return SCALED + 2 * ROPE
    return head_dim * (1 if kv_format in fp8.MAXIMUM else 2)


def decode(rows: Any, kv_format: str, kv_scale: float) -> Any:
    """Numbers of some slots.

    Args:
        rows: [tokens, row_bytes] uint8. Contiguous.
        kv_format: layout.
        kv_scale: what a per-tensor code is multiplied by.

    Returns:
        numbers: [tokens, head_dim] float64. Exact, but for the rounding to bf16 that fp8_656 is defined with.
    """
    import torch

    if kv_format in ("bf16", "fp16"):
        return rows.view(_half(kv_format)).double()
    if kv_format != "fp8_656":
        return fp8.decode(rows, kv_format) * kv_scale
    scales = rows[:, LATENT:SCALED].contiguous().view(torch.float32)
    latent = fp8.decode(rows[:, :LATENT], "e4m3fn").float() * scales.repeat_interleave(GROUP, 1)
    rope = rows[:, SCALED:].contiguous().view(torch.bfloat16)
    return torch.cat((latent.bfloat16().double(), rope.double()), 1)


def encode(numbers: Any, kv_format: str, kv_scale: float, scales: Any = None) -> Any:
    """Slots that hold some numbers as nearly as the format can.

    Args:
        numbers: [tokens, head_dim] float64. Finite.
        kv_format: layout.
        kv_scale: per-tensor scale.
        scales: [tokens, 4] float32. Scales of fp8_656.

    Returns:
        rows: [tokens, row_bytes] uint8.
    """
    import torch

    if kv_format in ("bf16", "fp16"):
        return numbers.float().to(_half(kv_format)).view(torch.uint8)
    if kv_format != "fp8_656":
        return fp8.encode(numbers / kv_scale, kv_format)
    codes = fp8.encode(numbers[:, :LATENT] / scales.double().repeat_interleave(GROUP, 1), "e4m3fn")
    rope = numbers[:, LATENT:].float().bfloat16().contiguous()
    return torch.cat((codes, scales.contiguous().view(torch.uint8), rope.view(torch.uint8)), 1)


def _half(kv_format: str) -> Any:
    import torch

    return {"bf16": torch.bfloat16, "fp16": torch.float16}[kv_format]
