"""Reference of `index_k_cache_write`: amax, scale and codes in float64, written by byte offsets.

Source: ROCm/aiter@e4048607a5 csrc/kernels/cache_kernels.cu indexer_k_quant_and_cache; deepseek-ai/DeepGEMM@54e2261
deep_gemm/utils/math.py. Differences: (1) the quotient k / scale is rounded once, from float64, where kernels round an fp32 quotient or
product first; (2) magnitudes past the format's largest saturate; (3) the divisor is an argument, where each source has its own constant.
"""

from __future__ import annotations

import torch


def index_k_cache_write(
    k: torch.Tensor,
    slot_mapping: torch.Tensor,
    *,
    block_size: int,
    kv_dtype: str,
    scale_format: str,
    divisor: int,
    layout: str,
    out: torch.Tensor,
    alloc: object,
) -> torch.Tensor:
    """Quantises keys and writes them into their slots.

    Args:
        k: [tokens, head_dim] bfloat16. New keys.  # [tokens, head_dim]
        slot_mapping: [tokens] int64. Slots; -1: not written.  # [tokens]
        block_size: tokens a page.
        kv_dtype: e4m3fn or e4m3fnuz.
        scale_format: fp32 or ue8m0.
        divisor: what amax is divided by.
        layout: block_flat or shuffled.
        out: [num_blocks, block_size, 1, head_dim + 4] uint8. The cache before; not changed.  # [num_blocks, block_size, 1, head_dim + 4]
        alloc: not used.

    Returns:
        kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. The cache after.  # [num_blocks, block_size, 1, head_dim + 4]
    """
    head_dim = k.shape[1]
    numbers = k[slot_mapping >= 0].double()  # [written, head_dim]
    slots = slot_mapping[slot_mapping >= 0]  # [written]
    floor = torch.tensor(1e-4, dtype=torch.float32).double().item()
    scale = (numbers.abs().amax(1).clamp(min=floor) / divisor).float()  # [written]
    if scale_format == "ue8m0":
        mantissa, exponent = torch.frexp(scale.double())
        scale = torch.ldexp(torch.ones_like(mantissa), exponent - (mantissa == 0.5).int()).float()
    codes = nearest_codes(numbers / scale.double()[:, None], kv_dtype)  # [written, head_dim]
    pages = out.contiguous().clone().view(out.shape[0], -1)  # [num_blocks, bytes]
    page, token = (slots // block_size)[:, None], (slots % block_size)[:, None]
    dim = torch.arange(head_dim, device=k.device)
    at = token * head_dim + dim
    if layout == "shuffled":
        at = token // 16 * (16 * head_dim) + dim // 16 * 256 + token % 16 * 16 + dim % 16
    pages[page, at] = codes
    octet = torch.arange(4, device=k.device)
    pages[page, block_size * head_dim + 4 * token + octet] = scale.contiguous().view(torch.uint8).view(-1, 4)
    return pages.view(out.shape)


def nearest_codes(numbers: torch.Tensor, kv_dtype: str) -> torch.Tensor:
    """FP8 codes of float64 numbers: to the nearest, ties to even, saturated.

    Args:
        numbers: [...] float64. Finite.  # [...]
        kv_dtype: e4m3fn or e4m3fnuz.

    Returns:
        codes: [...] uint8. A zero keeps its sign in e4m3fn; e4m3fnuz has no -0.  # [...]
    """
    dtype, largest, smallest = {
        "e4m3fn": (torch.float8_e4m3fn, 448.0, -6),
        "e4m3fnuz": (torch.float8_e4m3fnuz, 240.0, -7),
    }[kv_dtype]
    exponent = (torch.frexp(numbers).exponent - 1).clamp(min=smallest) - 3
    rounded = torch.ldexp(torch.round(torch.ldexp(numbers, -exponent)), exponent).clamp(-largest, largest)
    return rounded.to(dtype).view(torch.uint8)  # exact: the numbers are the format's own
