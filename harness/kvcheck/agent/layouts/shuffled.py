"""The shuffled index-K cache: a page's values in tiles of 16 tokens by 16 bytes, then its scales.

    kv_cache [num_blocks, block_size, 1, head_dim + 4] uint8; the four dimensions are a size statement only. block_size and head_dim
    are multiples of 16. A page is block_size * (head_dim + 4) bytes:

        byte offset in the page                                                            content
        token // 16 * 16 * head_dim + dim // 16 * 256 + token % 16 * 16 + dim % 16         FP8 code of (token, dim)
        block_size * head_dim + 4 * token                                                  little-endian fp32 scale of the token

The scales lie where the block-flat cache has them, so a reader that takes one layout for the other finds right scales and keys made
of other tokens' bytes. What `Preshuffle=True` of aiter's Gluon kernels reads, and what vLLM writes on ROCm for pages above one token.
Source: ROCm/aiter@e4048607a5 csrc/kernels/cache_kernels.cu (preshuffle), aiter/ops/triton/gluon/pa_mqa_logits.py.
"""

from __future__ import annotations

from typing import Any

TILE = 16
"""Tokens of a tile, and bytes of a token in it."""


def fits(block_size: int, head_dim: int) -> bool:
    """Whether a page divides into tiles."""
    return block_size % TILE == 0 and head_dim % TILE == 0


def write(kv_cache: Any) -> Any:
    """A shuffled cache that holds what a block-flat cache holds.

    Args:
        kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. Block-flat.

    Returns:
        shuffled: [num_blocks, block_size, 1, head_dim + 4] uint8. A copy, contiguous.
    """
    num_blocks, block_size, _, width = kv_cache.shape
    rows, columns = block_size // TILE, (width - 4) // TILE
    return _exchange(kv_cache, (num_blocks, rows, TILE, columns, TILE))


def read(shuffled: Any) -> Any:
    """The block-flat cache that a shuffled cache holds.

    Args:
        shuffled: [num_blocks, block_size, 1, head_dim + 4] uint8. Shuffled.

    Returns:
        kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. Block-flat; a copy, contiguous.
    """
    num_blocks, block_size, _, width = shuffled.shape
    rows, columns = block_size // TILE, (width - 4) // TILE
    return _exchange(shuffled, (num_blocks, rows, columns, TILE, TILE))


def _exchange(cache: Any, shape: tuple[int, ...]) -> Any:
    """The two middle dimensions of the values change places; scales stay."""
    num_blocks, block_size, _, width = cache.shape
    if not fits(block_size, width - 4):
        raise ValueError(f"a page of {block_size} tokens by {width - 4} bytes does not divide into tiles of {TILE} by {TILE}")
    pages = cache.reshape(num_blocks, -1).clone()
    values = pages[:, : block_size * (width - 4)]
    values.copy_(values.reshape(shape).transpose(2, 3).reshape(num_blocks, -1))
    return pages.view(cache.shape)
