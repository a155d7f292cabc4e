"""Reference of `block_table`: the slot of a token from its physical address in tokens, without any table of kernel or storage blocks.

Source: vllm-project/vllm vllm/v1/worker/block_table.py@a4cd9d0d and backends/mla/indexer.py@07492607. Differences: (1) no table is expanded
or collapsed: blocks lie end to end, so a token's address is manager id * manager_block_size + offset whatever smaller blocks it is cut
into; (2) sizes that do not divide are refused, where the source passes the table through; (3) one function for both mappings.
"""

from __future__ import annotations

import torch


def block_table(
    block_table: torch.Tensor,
    request_ids: torch.Tensor,
    positions: torch.Tensor,
    *,
    manager_block_size: int,
    kernel_block_size: int,
    storage_block_size: int,
    tokens_per_state: int,
    mapping: str = "read",
    out: object,
    alloc: object,
) -> torch.Tensor:
    """Slots of tokens.

    Args:
        block_table: [batch, width] int32. Manager block ids; 0 is the null block.  # [batch, width]
        request_ids: [tokens] int32. -1 for a padding token.  # [tokens]
        positions: [tokens] int32. Position in the request.  # [tokens]
        manager_block_size, kernel_block_size, storage_block_size: tokens a block of the allocator, of the kernels' table, of the cache.
        tokens_per_state: tokens that share one cached state.
        mapping: "read", every token's state; "write", -1 unless the token completes its state's group.
        out, alloc: not used.

    Returns:
        slots: [tokens] int64. -1 for a padding token.  # [tokens]

    Raises:
        ValueError: block sizes that do not divide.
    """
    nested = kernel_block_size % storage_block_size == 0 or storage_block_size % kernel_block_size == 0
    whole = manager_block_size % kernel_block_size == 0 and manager_block_size % storage_block_size == 0
    if not nested or not whole or storage_block_size % tokens_per_state:
        sizes = f"{manager_block_size}, {kernel_block_size}, {storage_block_size} of {tokens_per_state} tokens a state"
        raise ValueError(f"manager, kernel and storage blocks of {sizes} are not whole multiples of one another")
    token = positions.long()
    asked = request_ids >= 0
    if mapping == "write":
        asked = asked & ((token + 1) % tokens_per_state == 0)
    block = block_table[request_ids.long().clamp(min=0), token // manager_block_size].long()
    address = block * manager_block_size + token % manager_block_size
    return torch.where(asked, address // tokens_per_state, -1)
