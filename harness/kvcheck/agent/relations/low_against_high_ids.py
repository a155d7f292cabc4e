"""The same pages at the bottom and at the top of a large pool: not a bit may change, or an id or an offset does not fit its type."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.relations import Variant, _pages

SPEC = {"name": "low_against_high_ids", "demand": "bits", "doc": "the same pages at the bottom and at the top of a large pool"}

TOP = (1 << 16) + 5
"""Pages that a pool has where memory allows: more than 16 bits count."""


def variants(op: str, inputs: Any, generator: Any, reach: int) -> list[Variant]:
    """The call at the bottom and at the top of its pool; none where no page is named."""
    import torch

    old = _pages.ids(op, inputs)
    if not len(old):
        return []
    count = len(old)
    cache = inputs.initial.get("kv_cache", inputs.tensors.get("kv_cache"))
    if cache is None:
        first, top = (1 if op == "block_table" else 0), _last(op, inputs)
    else:
        page = max(cache.stride(0), cache[0].numel()) * cache.element_size()
        first, top = 0, max(2 * len(cache), min(reach // page, max(TOP + count, (reach >> 31 << 31) // page + count)))
    found = []
    for what, start, pool in (("at the bottom of the pool", first, first + count + 1), ("at the top of the pool", top - count, top)):
        changed, back = _pages.renumbered(op, inputs, old, torch.arange(start, start + count), pool)
        found.append(Variant(f"{count} pages {what} (from id {start} on)", changed, back))
    return found


def _last(op: str, inputs: Any) -> int:
    """One past the largest id that an output has room for: 32-bit slots and entries, 64-bit slots of 31-bit ids."""
    given = inputs.scalars
    if op == "topk_slots":
        return ((1 << 31) - given["block_size"]) // given["block_stride"]
    if op == "mla_metadata":
        return (1 << 31) // (given["block_size"] // given["page_size"])
    return (1 << 31) // max(given["manager_block_size"] // min(given["kernel_block_size"], given["storage_block_size"]), 1)
