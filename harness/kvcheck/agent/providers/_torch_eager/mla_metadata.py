"""The lists of pages of MLA decode in plain torch, as a model runner builds them."""

from __future__ import annotations

from typing import Any


def mla_metadata(
    block_table: Any,
    context_lens: Any,
    *,
    page_size: int,
    block_size: int,
    num_splits: int,
    split_granularity: int,
    kv_indptr: Any,
    kv_indices: Any,
    last_page_len: Any,
    splits_indptr: Any,
    alloc: Any,
) -> None:
    """Expands the table to pages, keeps those that hold a token, and counts the parts that each request is worth."""
    import torch

    ratio = block_size // page_size
    wide = (block_table[..., None] * ratio + torch.arange(ratio, device=block_table.device, dtype=torch.int32)).flatten(1)
    pages = (context_lens + page_size - 1) // page_size
    kv_indices[:] = wide[torch.arange(wide.shape[1], device=wide.device) < pages[:, None]]
    kv_indptr[0] = 0
    kv_indptr[1:] = pages.cumsum(0)
    rest = context_lens % page_size
    last_page_len[:] = torch.where(rest == 0, page_size, rest)
    splits_indptr[0] = 0
    splits_indptr[1:] = ((context_lens + split_granularity - 1) // split_granularity).clamp(max=num_splits).cumsum(0)
