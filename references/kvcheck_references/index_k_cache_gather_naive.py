"""A second reference of `index_k_cache_gather`, written independently: pages as bytes, one token at a time.

Source: SEMANTICS 1.2 and 3 in words; no code is shared with `index_k_cache_gather`.
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
) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and scales of whole requests, a token at a time.

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
    head_dim = k.shape[1]
    pages = [bytes(page.flatten().tolist()) for page in kv_cache.contiguous()]
    rows, scales = [bytes(row) for row in k.tolist()], [bytes(row) for row in k_scale.view(torch.uint8).view(-1, 4).tolist()]
    starts, table = cu_seq_lens.tolist(), block_table.tolist()
    for request, (first, end) in enumerate(zip(starts, starts[1:], strict=False)):
        for position in range(end - first):
            column, token = divmod(position, block_size)
            page = pages[table[request][column]]
            rows[first + position] = _key(page, token, head_dim, layout)
            scales[first + position] = page[block_size * head_dim + 4 * token :][:4]
    codes = torch.tensor([list(row) for row in rows], dtype=torch.uint8)
    return codes, torch.tensor([list(scale) for scale in scales], dtype=torch.uint8).view(torch.float32)[:, 0]


def _key(page: bytes, token: int, head_dim: int, layout: str) -> bytes:
    """The bytes of one key: in a shuffled page 16 of every tile of 256."""
    if layout == "block_flat":
        return page[token * head_dim :][:head_dim]
    first = token // 16 * 16 * head_dim + token % 16 * 16
    return b"".join(page[first + 256 * tile :][:16] for tile in range(head_dim // 16))
