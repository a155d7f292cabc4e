"""Slots by the tables themselves: manager blocks to kernel blocks, kernel blocks to storage blocks, then one look-up a token."""

from __future__ import annotations

from typing import Any


def block_table(
    block_table: Any,
    request_ids: Any,
    positions: Any,
    *,
    manager_block_size: int,
    kernel_block_size: int,
    storage_block_size: int,
    tokens_per_state: int,
    mapping: str = "read",
    out: Any,
    alloc: Any,
) -> None:
    """Expands or collapses whole tables, as an engine does before it launches kernels."""
    import torch

    if manager_block_size % kernel_block_size or manager_block_size % storage_block_size or storage_block_size % tokens_per_state:
        raise ValueError("a manager block must be whole kernel blocks and whole storage blocks, a storage block whole states")
    table = _expanded(block_table.long(), manager_block_size // kernel_block_size)
    if kernel_block_size % storage_block_size == 0:
        table = _expanded(table, kernel_block_size // storage_block_size)
    elif storage_block_size % kernel_block_size == 0:
        factor = storage_block_size // kernel_block_size
        table = table[:, ::factor] // factor
    else:
        raise ValueError(f"neither of kernel block {kernel_block_size} and storage block {storage_block_size} divides the other")
    token, states = positions.long(), storage_block_size // tokens_per_state
    page = table[request_ids.long().clamp(min=0), token // storage_block_size]
    asked = request_ids >= 0
    if mapping == "write":
        asked &= (token + 1) % tokens_per_state == 0
    out.copy_(torch.where(asked, page * states + token // tokens_per_state % states, -1))


def _expanded(table: Any, factor: int) -> Any:
    """Every block as its `factor` parts."""
    import torch

    return (table[:, :, None] * factor + torch.arange(factor, device=table.device)).flatten(1)
