"""Keys and scales of whole requests by indexing, a request at a time."""

from __future__ import annotations

from typing import Any


def index_k_cache_gather(
    kv_cache: Any,
    block_table: Any,
    cu_seq_lens: Any,
    *,
    block_size: int,
    kv_dtype: str,
    layout: str,
    k: Any,
    k_scale: Any,
    alloc: Any,
) -> None:
    """Copies the tokens of each request out of its pages."""
    import torch

    width = k.shape[1]
    pages = kv_cache.view(kv_cache.shape[0], -1)
    flat = pages[:, : block_size * width].unflatten(1, (block_size, width))
    tiles = pages[:, : block_size * width].unflatten(1, (block_size // 16, width // 16, 16, 16)) if layout == "shuffled" else None
    scales = pages[:, block_size * width :].unflatten(1, (block_size, 4))
    starts = cu_seq_lens.tolist()
    for request, (first, end) in enumerate(zip(starts, starts[1:], strict=False)):
        position = torch.arange(end - first, device=k.device)
        block, offset = block_table[request, position // block_size].long(), position % block_size
        k[first:end] = flat[block, offset] if tiles is None else tiles[block, offset // 16, :, offset % 16].flatten(1)
        k_scale[first:end] = scales[block, offset].contiguous().view(torch.float32).view(-1)
