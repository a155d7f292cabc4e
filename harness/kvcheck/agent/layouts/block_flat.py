"""The block-flat index-K cache: a page's values first, then its scales.

    kv_cache [num_blocks, block_size, 1, head_dim + 4] uint8; the four dimensions are a size statement only. A page is
    block_size * (head_dim + 4) bytes:

        byte offset in the page                     content
        token * head_dim + dim                      FP8 code of (token, dim)
        block_size * head_dim + 4 * token           little-endian fp32 scale of the token

With block_size 1 this is the same as token-interleaved, which is why a wrong layout cannot be seen there.
Source: deepseek-ai/DeepGEMM@54e2261 csrc/apis/attention.hpp; ROCm/aiter@e4048607a5 aiter/ops/triton/attention/pa_mqa_logits.py.
"""

from __future__ import annotations

from typing import Any


def gather(kv_cache: Any, slots: Any) -> tuple[Any, Any]:
    """Codes and scales of some tokens.

    Args:
        kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. The cache, contiguous.
        slots: [tokens] int64. block_id * block_size + offset.

    Returns:
        codes: [tokens, head_dim] uint8. FP8 codes.
        scales: [tokens] float32. Key scales.
    """
    import torch

    num_blocks, block_size, _, width = kv_cache.shape
    dim = width - 4
    pages = kv_cache.view(num_blocks, block_size * width)
    block, offset = slots // block_size, slots % block_size
    if block_size == 1:
        rows = pages[block]
        return rows[:, :dim], rows[:, dim:].contiguous().view(torch.float32).squeeze(1)
    lanes = torch.arange(dim, device=slots.device)
    codes = pages[block[:, None], (offset * dim)[:, None] + lanes]
    octets = pages[block[:, None], (block_size * dim + 4 * offset)[:, None] + torch.arange(4, device=slots.device)]
    return codes, octets.contiguous().view(torch.float32).squeeze(1)


def scatter(kv_cache: Any, slots: Any, codes: Any, scales: Any) -> None:
    """Writes some tokens.

    Args:
        kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. The cache, contiguous; changed.
        slots: [tokens] int64. Distinct.
        codes: [tokens, head_dim] uint8. FP8 codes.
        scales: [tokens] float32. Key scales.
    """
    import torch

    num_blocks, block_size, _, width = kv_cache.shape
    dim = width - 4
    pages = kv_cache.view(num_blocks, block_size * width)
    block, offset = slots // block_size, slots % block_size
    lanes = torch.arange(dim, device=slots.device)
    pages[block[:, None], (offset * dim)[:, None] + lanes] = codes
    octets = scales.contiguous().view(torch.uint8).view(-1, 4)
    pages[block[:, None], (block_size * dim + 4 * offset)[:, None] + torch.arange(4, device=slots.device)] = octets
