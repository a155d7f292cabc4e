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


def values(kv_cache: Any) -> Any:
    """The codes of every slot, as a view.

    Args:
        kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. The cache, contiguous.

    Returns:
        codes: [num_blocks, block_size, head_dim] uint8. Shares the cache's memory.
    """
    num_blocks, block_size, _, width = kv_cache.shape
    return kv_cache.view(num_blocks, -1)[:, : block_size * (width - 4)].unflatten(1, (block_size, width - 4))


def scales(kv_cache: Any) -> Any:
    """The scales of every slot, as a view.

    Args:
        kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. The cache, contiguous; head_dim a multiple of 4.

    Returns:
        scales: [num_blocks, block_size] float32. Shares the cache's memory.
    """
    import torch

    num_blocks, block_size, _, width = kv_cache.shape
    return kv_cache.view(num_blocks, -1)[:, block_size * (width - 4) :].view(torch.float32)


def gather(kv_cache: Any, slots: Any) -> tuple[Any, Any]:
    """Codes and scales of some tokens.

    Args:
        kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. The cache, contiguous.
        slots: [tokens] int64. block_id * block_size + offset.

    Returns:
        codes: [tokens, head_dim] uint8. FP8 codes.
        scales: [tokens] float32. Key scales.
    """
    block, offset = slots // kv_cache.shape[1], slots % kv_cache.shape[1]
    return values(kv_cache)[block, offset], scales(kv_cache)[block, offset]


def scatter(kv_cache: Any, slots: Any, codes: Any, token_scales: Any) -> None:
    """Writes some tokens.

    Args:
        kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. The cache, contiguous; changed.
        slots: [tokens] int64. Distinct.
        codes: [tokens, head_dim] uint8. FP8 codes.
        token_scales: [tokens] float32. Key scales.
    """
    block, offset = slots // kv_cache.shape[1], slots % kv_cache.shape[1]
    values(kv_cache)[block, offset] = codes
    scales(kv_cache)[block, offset] = token_scales
