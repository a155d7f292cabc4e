"""Reference of `index_k_cache_gather`: slots of every token at once, bytes by offset.

Source: ROCm/aiter@e4048607a5 csrc/kernels/cache_kernels.cu cp_gather_indexer_k_quant_cache. Differences: (1) one scale a token; (2) the
outputs are new tensors, with the rows that no request has as they were.
"""

from __future__ import annotations

import torch


def index_k_cache_gather(
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    cu_seq_lens: torch.Tensor,
    *,
    block_size: int,
    kv_dtype: str,
    layout: str,
    k: torch.Tensor,
    k_scale: torch.Tensor,
    alloc: object,
) -> dict[str, torch.Tensor]:
    """Keys and scales of whole requests.

    Args:
        kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. The cache.  # [num_blocks, block_size, 1, head_dim + 4]
        block_table: [batch, width] int32. Page ids.  # [batch, width]
        cu_seq_lens: [batch + 1] int32. First row of each request, and the end.  # [batch + 1]
        block_size: tokens a page.
        kv_dtype: not used: everything is a copy.
        layout: block_flat or shuffled.
        k: [tokens, head_dim] uint8. What the output held before; not changed.  # [tokens, head_dim]
        k_scale: [tokens] float32. What the output held before; not changed.  # [tokens]
        alloc: not used.

    Returns:
        k: [tokens, head_dim] uint8. FP8 codes.  # [tokens, head_dim]
        k_scale: [tokens] float32. Key scales.  # [tokens]
    """
    codes, scales = k.clone(), k_scale.clone()
    pages = kv_cache.reshape(kv_cache.shape[0], -1)  # [num_blocks, bytes]
    starts = cu_seq_lens.long()
    row = torch.arange(int(starts[-1]), device=k.device)
    request = torch.searchsorted(starts, row, right=True) - 1
    position = row - starts[request]
    page = block_table[request, position // block_size].long()[:, None]
    token, dim = (position % block_size)[:, None], torch.arange(k.shape[1], device=k.device)
    at = token * k.shape[1] + dim
    if layout == "shuffled":
        at = token // 16 * (16 * k.shape[1]) + dim // 16 * 256 + token % 16 * 16 + dim % 16
    codes[row] = pages[page, at]
    octets = pages[page, block_size * k.shape[1] + 4 * token + torch.arange(4, device=k.device)]
    scales[row] = octets.contiguous().view(torch.float32)[:, 0]
    return {"k": codes, "k_scale": scales}
