"""Tensors of a case in the forms that aiter's entry points take."""

from __future__ import annotations

import torch

from kvcheck.agent.protocol import Unsupported


def refuse_views(kv_cache: torch.Tensor, block_table: torch.Tensor) -> None:
    """Refuses what aiter's entry points take by shape alone.

    Args:
        kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. the cache.
        block_table: [batch, width] int32. page ids.

    Raises:
        Unsupported: a view: stage1 finds the rows of the table by its width, and a copy for the kernel's sake would not be the case.
    """
    if not kv_cache.is_contiguous():
        raise Unsupported(f"aiter is given whole caches here, not views with a block stride of {kv_cache.stride(0)} bytes")
    if not block_table.is_contiguous():
        raise Unsupported(f"aiter finds the rows of a block table by its width, and the row stride is {block_table.stride(0)}")


def flatten(q: torch.Tensor, block_table: torch.Tensor, context_lens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Requests of next_n rows with a length each, as requests of one row: aiter loads one length a request.

    Args:
        q: [batch, next_n, num_heads, head_dim] float8. queries.
        block_table: [batch, width] int32. page ids.
        context_lens: [batch, next_n] int32. length of each row.

    Returns:
        q [batch*next_n, 1, num_heads, head_dim], block_table [batch*next_n, width], context_lens [batch*next_n].
    """
    batch, next_n, heads, head_dim = q.shape
    return (
        q.reshape(batch * next_n, 1, heads, head_dim),
        block_table.repeat_interleave(next_n, dim=0),
        context_lens.reshape(-1).contiguous(),
    )


def ragged(context_lens: torch.Tensor, block_table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Lengths and table as the ragged_k kernels take them, for block size 1.

    Args:
        context_lens: [batch] int32. length of each request.
        block_table: [batch, width] int32. one slot a token.

    Returns:
        prefix_sum_context_lens: [batch+1] int32. where each request's slots begin.
        kv_indices: [sum of context_lens] int32. token slots, requests one after the other.
    """
    lengths = context_lens.tolist()
    sums = torch.zeros(len(lengths) + 1, dtype=torch.int32, device=context_lens.device)
    sums[1:] = torch.cumsum(context_lens, dim=0)
    return sums, torch.cat([block_table[b, :n] for b, n in enumerate(lengths)]).contiguous()
