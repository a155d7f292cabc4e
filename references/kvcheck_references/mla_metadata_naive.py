"""A second reference of `mla_metadata`, written independently: one token at a time, pages counted as they begin.

Slow on purpose; tests hold the fast reference against it. Source: the contract in words; no code is shared with `mla_metadata`.
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
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Lists of pages, token by token.

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
        last_page_len: [batch] int32. Tokens in the last page; page_size where there is none.  # [batch]
        splits_indptr: [batch + 1] int32. First parts.  # [batch + 1]
    """
    first, pages, last, splits = [0], [], [], [0]
    for table, length in zip(block_table.tolist(), context_lens.tolist(), strict=True):
        filled, parts = page_size, 0
        for token in range(length):
            block, inside = divmod(token, block_size)
            slot = table[block] * block_size + inside
            if slot % page_size == 0:
                pages.append(slot // page_size)
                filled = 0
            filled += 1
            if token == parts * split_granularity and parts < num_splits:
                parts += 1  # a token past what the parts so far were opened for
        first.append(len(pages))
        last.append(filled)
        splits.append(splits[-1] + parts)
    return tuple(torch.tensor(each, dtype=torch.int32) for each in (first, pages, last, splits))
