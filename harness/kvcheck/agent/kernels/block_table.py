"""Our own Triton kernel of the block table: one lane a token, no table of smaller blocks in memory."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from kvcheck.agent.kernels.target import current


@triton.jit
def _block_table(
    table_ptr,
    request_ptr,
    position_ptr,
    out_ptr,
    tokens,
    table_stride,
    MANAGER: tl.constexpr,
    KERNEL: tl.constexpr,
    STORAGE: tl.constexpr,
    PER_STATE: tl.constexpr,
    WRITES: tl.constexpr,
    LANES: tl.constexpr,
):
    lane = tl.program_id(0) * LANES + tl.arange(0, LANES)
    live = lane < tokens
    request = tl.load(request_ptr + lane, mask=live, other=-1)
    position = tl.load(position_ptr + lane, mask=live, other=0)
    asked = live & (request >= 0)
    if WRITES:
        asked = asked & ((position + 1) % PER_STATE == 0)
    entry = table_ptr + request.to(tl.int64) * table_stride + position // MANAGER
    manager = tl.load(entry, mask=asked, other=0).to(tl.int64)
    kernel = manager * (MANAGER // KERNEL) + position % MANAGER // KERNEL
    if KERNEL >= STORAGE:
        page = kernel * (KERNEL // STORAGE) + position % KERNEL // STORAGE
    else:
        page = kernel // (STORAGE // KERNEL)
    slot = page * (STORAGE // PER_STATE) + position % STORAGE // PER_STATE
    tl.store(out_ptr + lane, tl.where(asked, slot, -1), mask=live)


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
) -> dict[str, int]:
    """Slots of tokens.

    Args:
        block_table: [batch, width] int32. Manager block ids.
        request_ids: [tokens] int32. -1 for a padding token.
        positions: [tokens] int32. Position in the request.
        out: [tokens] int64. Written whole.

    Returns:
        config: tile sizes that were launched.

    Raises:
        ValueError: block sizes that do not divide.
    """
    manager, kernel, storage = manager_block_size, kernel_block_size, storage_block_size
    if manager % kernel or manager % storage or storage % tokens_per_state or (kernel % storage and storage % kernel):
        raise ValueError(f"blocks of {manager}, {kernel}, {storage} tokens, {tokens_per_state} a state, are not whole multiples")
    tokens = len(positions)
    lanes = 1 << 16 if current(positions.device).interpreted else 1024
    config = {"LANES": min(lanes, max(triton.next_power_of_2(tokens), 16))}
    _block_table[(triton.cdiv(tokens, config["LANES"]),)](
        block_table,
        request_ids,
        positions,
        out,
        tokens,
        block_table.stride(0),
        MANAGER=manager,
        KERNEL=kernel,
        STORAGE=storage,
        PER_STATE=tokens_per_state,
        WRITES=mapping == "write",
        **config,
    )
    return config
