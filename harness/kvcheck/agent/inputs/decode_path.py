"""What lies between the ops of the decode path: both caches before anything is written, whose key a slot holds, selections as lists."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.inputs import attention
from kvcheck.agent.inputs.index_cache import poison_token
from kvcheck.agent.inputs.latent_cache import poison_row
from kvcheck.agent.layouts import block_flat, mla

SPEC = {"summary": "caches of the decode path before the first write, owners of slots, selections packed into lists"}


def packed(kv_slots: Any) -> tuple[Any, Any]:
    """The rows of a selection as lists: what stands before a row's first -1.

    Args:
        kv_slots: [rows, topk] int32.

    Returns:
        kv_indptr: [rows + 1] int32.
        kv_indices: [entries + 1] int32. The last one is padding.
    """
    import torch

    counts = (kv_slots >= 0).int().cumprod(1).sum(1)
    indptr = torch.cat((torch.zeros(1, dtype=torch.int64), counts.cpu().cumsum(0)))
    entries = [row[:count] for row, count in zip(kv_slots.cpu(), counts.tolist(), strict=True)]
    return indptr.to(torch.int32), torch.cat([*entries, torch.zeros(1, dtype=torch.int32)]).to(torch.int32)


def owners(table: Any, request_ids: Any, positions: Any, size: int) -> Any:
    """The token whose key a token writes: the first in its slot, so that requests that share a prefix agree about it.

    Args:
        table: [batch, width] int32. Page ids.
        request_ids: [tokens] int32. -1 for a padding token.
        positions: [tokens] int32. Position in the request.
        size: tokens a page.

    Returns:
        first: [tokens] int64.
    """
    import torch

    request, position = request_ids.long().clamp(min=0), positions.long()
    slot = table[request, position // size].long() * size + position % size
    slot[request_ids < 0] = -1 - torch.arange(int((request_ids < 0).sum()))
    _, inverse = slot.unique(return_inverse=True)
    first = torch.full((len(slot),), len(slot)).scatter_reduce(0, inverse, torch.arange(len(slot)), "amin")
    return first[inverse]


def index_pool(case: dict[str, Any], blocks: int, slots: Any) -> tuple[Any, Any]:
    """The index-K cache before anything is written, and what the tokens will own of it.

    Args:
        case: resolved params.
        blocks: pages.
        slots: [tokens] int64. Slot of each token, -1 for none.

    Returns:
        before: [blocks, block_size, 1, index_head_dim + 4] uint8. Poison.
        owned: [blocks, block_size, 1, index_head_dim + 4] bool.
    """
    import torch

    size, dim = case["block_size"], case["index_head_dim"]
    every = torch.arange(blocks * size)
    codes, scale = poison_token("finite_beacon" if case["poison"] == "none" else case["poison"], dim, case["kv_dtype"])
    before, owned = (torch.zeros(blocks, size, 1, dim + 4, dtype=torch.uint8) for _ in range(2))
    block_flat.scatter(before, every, codes.repeat(len(every), 1), torch.full((len(every),), scale))
    mine = slots[slots >= 0].cpu()
    ones = torch.full((len(mine),), 0x01010101, dtype=torch.int32).view(torch.float32)
    block_flat.scatter(owned, mine, torch.ones(len(mine), dim, dtype=torch.uint8), ones)
    return before, owned.bool()


def latents(case: dict[str, Any], slots: int, generator: Any, owned: Any, kept: Any) -> Any:
    """The latent cache: each live token's latent at its slot, poison elsewhere.

    Args:
        case: resolved params.
        slots: tokens that the cache holds.
        generator: an `inputs.random.Generator`.
        owned: [tokens] int64. Slot of each token, -1 for none.
        kept: [tokens] bool. Tokens that keep their values; the latents of the others are zero.

    Returns:
        kv_cache: [slots, 1, 1, row_bytes] uint8.
    """
    owned = owned.cpu().long()
    kind = "finite_beacon" if case["poison"] == "none" else case["poison"]
    cache = poison_row(kind, case["kv_format"], case["head_dim"]).repeat(slots, 1)
    numbers = attention.latents("gaussian", case["head_dim"], generator, "latents", 0, len(owned))
    numbers[~kept] = 0
    cache[owned[owned >= 0]] = mla.encode(numbers[owned >= 0], case["kv_format"], 1.0)
    return cache.view(slots, 1, 1, -1)
