"""A second reference of `block_table`, written independently: lists of blocks, split and joined one by one, in Python integers.

Slow on purpose; tests hold the fast reference against it. Source: the rules in words; no code is shared with `block_table`.
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
    """Slots of tokens, one at a time.

    Args:
        block_table: [batch, width] int32. Manager block ids.  # [batch, width]
        request_ids: [tokens] int32. -1 for a padding token.  # [tokens]
        positions: [tokens] int32. Position in the request.  # [tokens]

    Returns:
        slots: [tokens] int64.  # [tokens]

    Raises:
        ValueError: block sizes that do not divide.
    """
    pieces, left = divmod(manager_block_size, kernel_block_size)
    if left:
        raise ValueError("a manager block must be whole kernel blocks")
    states, left = divmod(storage_block_size, tokens_per_state)
    if left:
        raise ValueError("a storage block must be whole states")
    if storage_block_size > manager_block_size or manager_block_size % storage_block_size:
        raise ValueError("a manager block must be whole storage blocks")
    larger, smaller = max(kernel_block_size, storage_block_size), min(kernel_block_size, storage_block_size)
    if larger % smaller:
        raise ValueError("of the kernel block and the storage block one must divide the other")
    ratio = larger // smaller
    entries = block_table.tolist()
    pages: dict[tuple[int, int], list[int]] = {}
    slots = []
    for request, position in zip(request_ids.tolist(), positions.tolist(), strict=True):
        if request == -1 or (mapping == "write" and position % tokens_per_state != tokens_per_state - 1):
            slots.append(-1)
            continue
        entry = position // manager_block_size
        if (request, entry) not in pages:
            manager = entries[request][entry]
            kernels = [manager * pieces + piece for piece in range(pieces)]
            if kernel_block_size >= storage_block_size:
                pages[request, entry] = [kernel * ratio + part for kernel in kernels for part in range(ratio)]
            else:
                pages[request, entry] = [kernels[start] // ratio for start in range(0, pieces, ratio)]
        inside = position - entry * manager_block_size
        page = pages[request, entry][inside // storage_block_size]
        slots.append(page * states + inside % storage_block_size // tokens_per_state)
    return torch.tensor(slots, dtype=torch.int64)
