"""Reference of `mla_metadata`: the lists of pages of MLA decode, vectorised over each request's pages.

Source: vllm-project/vllm#31282; ROCm/aiter@e4048607a5 aiter/mla.py. Difference: one formula for every page size,
last_page_len = (context_len - 1) mod page_size + 1, so that (pages - 1) * page_size + last_page_len is the length, 0 included.
The split counts are neither package's: each request has as many parts as its tokens fill, up to num_splits.
"""

from __future__ import annotations

import torch


def mla_metadata(
    block_table: torch.Tensor,
    context_lens: torch.Tensor,
    *,
    page_size: int,
    block_size: int,
    num_splits: int,
    split_granularity: int,
    kv_indptr: object,
    kv_indices: object,
    last_page_len: object,
    splits_indptr: object,
    alloc: object,
) -> dict[str, torch.Tensor]:
    """Lists of pages.

    Args:
        block_table: [batch, width] int32. Block ids.  # [batch, width]
        context_lens: [batch] int32. Tokens.  # [batch]
        page_size: tokens a page of the kernel.
        block_size: tokens a block of the table.
        num_splits: most parts of a request.
        split_granularity: tokens that a part is opened for.
        kv_indptr, kv_indices, last_page_len, splits_indptr, alloc: not used.

    Returns:
        kv_indptr: [batch + 1] int32. First entries.  # [batch + 1]
        kv_indices: [entries] int32. Page ids.  # [entries]
        last_page_len: [batch] int32. Tokens in the last page.  # [batch]
        splits_indptr: [batch + 1] int32. First parts.  # [batch + 1]
    """
    pages = (context_lens.long() + page_size - 1) // page_size
    lists = []
    for table, count in zip(block_table.long(), pages.tolist(), strict=True):
        token = torch.arange(count, device=block_table.device) * page_size
        lists.append(table[token // block_size] * (block_size // page_size) + token % block_size // page_size)
    first = torch.cat((pages.new_zeros(1), pages.cumsum(0)))
    last = (context_lens.long() - 1) % page_size + 1
    parts = ((context_lens.long() + split_granularity - 1) // split_granularity).clamp(max=num_splits)
    splits = torch.cat((parts.new_zeros(1), parts.cumsum(0)))
    made = {"kv_indptr": first, "kv_indices": torch.cat(lists), "last_page_len": last, "splits_indptr": splits}
    return {name: value.int() for name, value in made.items()}
