"""Reference of `mla_metadata`: the lists of pages of MLA decode, vectorised over each request's pages.

Source: vllm-project/vllm#31282; ROCm/aiter@e4048607a5 aiter/mla.py. Difference: one formula for every page size,
last_page_len = (context_len - 1) mod page_size + 1, so that (pages - 1) * page_size + last_page_len is the length, 0 included.
"""

from __future__ import annotations

import torch


def mla_metadata(
    block_table: torch.Tensor,
    context_lens: torch.Tensor,
    *,
    page_size: int,
    block_size: int,
    kv_indptr: object,
    kv_indices: object,
    last_page_len: object,
    alloc: object,
) -> dict[str, torch.Tensor]:
    """Lists of pages.

    Args:
        block_table: [batch, width] int32. Block ids.  # [batch, width]
        context_lens: [batch] int32. Tokens.  # [batch]
        page_size: tokens a page of the kernel.
        block_size: tokens a block of the table.
        kv_indptr, kv_indices, last_page_len, alloc: not used.

    Returns:
        kv_indptr: [batch + 1] int32. First entries.  # [batch + 1]
        kv_indices: [entries] int32. Page ids.  # [entries]
        last_page_len: [batch] int32. Tokens in the last page.  # [batch]
    """
    pages = (context_lens.long() + page_size - 1) // page_size
    lists = []
    for table, count in zip(block_table.long(), pages.tolist(), strict=True):
        token = torch.arange(count, device=block_table.device) * page_size
        lists.append(table[token // block_size] * (block_size // page_size) + token % block_size // page_size)
    first = torch.cat((pages.new_zeros(1), pages.cumsum(0)))
    last = (context_lens.long() - 1) % page_size + 1
    return {"kv_indptr": first.int(), "kv_indices": torch.cat(lists).int(), "last_page_len": last.int()}
