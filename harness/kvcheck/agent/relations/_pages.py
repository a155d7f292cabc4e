"""Pages under other ids: what is in them moves, and every id that leads there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kvcheck.agent import relations
from kvcheck.agent.inputs import tables
from kvcheck.agent.inputs.bundle import Inputs

TABLES = frozenset({"paged_mqa_logits", "index_k_cache_gather"})
LOST = -7
"""Stands for a page that no id leads to."""


def ids(op: str, inputs: Inputs) -> Any:
    """[n] int64, ascending. Ids of pages that can be given others: those that the call names, and no padding."""
    import torch

    tensors = inputs.tensors
    if op == "index_k_cache_write":
        slots = tensors["slot_mapping"]
        return (slots[slots >= 0] // inputs.scalars["block_size"]).unique()
    named = tensors["kv_indices" if op == "mla_decode" else "block_table"].long().unique()
    low, high = (1 if op == "block_table" else 0), 1 << 31
    if op in TABLES or op == "mla_decode":
        high = tensors["kv_cache"].shape[0]
    elif op == "topk_slots":
        high = ((1 << 31) - inputs.scalars["block_size"]) // inputs.scalars["block_stride"] + 1
    elif op == "mla_metadata":
        high = (1 << 31) // _per_page(op, inputs)
    return named[(named >= low) & (named < high) & ~torch.isin(named, torch.tensor(list(tables.PADDING.values())))]


def pool(op: str, inputs: Inputs) -> int:
    """Pages in the pool; one past the largest id where the call has no cache."""
    if op == "index_k_cache_write":
        return inputs.initial["kv_cache"].shape[0]
    if "kv_cache" in inputs.tensors:
        return inputs.tensors["kv_cache"].shape[0]
    known = ids(op, inputs)
    return int(known[-1]) + 1 if len(known) else 0


def renumbered(op: str, inputs: Inputs, old: Any, new: Any, count: int, device: Any = "cpu") -> tuple[Inputs, Callable]:
    """The call with pages under other ids.

    Args:
        op: name of the op.
        inputs: the call.
        old: [n] int64, ascending. Ids that change; pages with other ids are dropped.
        new: [n] int64. What they become, each once.
        count: pages of the new pool.
        device: where the new pool is made.

    Returns:
        inputs: the call.
        back: maps its outputs onto those of the call it was made from.
    """
    tensors = dict(inputs.tensors)
    if op == "index_k_cache_write":
        size, slots, before = inputs.scalars["block_size"], tensors["slot_mapping"], inputs.initial["kv_cache"]
        moved = _mapped(slots // size, old, new) * size + slots % size
        tensors["slot_mapping"] = slots.where(slots < 0, moved)
        cache = _moved(before, old, new, count, device)
        shape = (count, *before.shape[1:])
        changed = replace(inputs, tensors=tensors, initial={"kv_cache": cache}, outputs={"kv_cache": (shape, cache.dtype)}, inside={})
        return changed, lambda outputs: {"kv_cache": _home(outputs["kv_cache"], before, old, new)}
    if "kv_cache" in tensors:
        tensors["kv_cache"] = _moved(tensors["kv_cache"], old, new, count, device)
    name = "kv_indices" if op == "mla_decode" else "block_table"
    tensors[name] = relations.laid_like(tensors[name], _mapped(tensors[name].long(), old, new).to(tensors[name].dtype))
    changed = replace(inputs, tensors=tensors)
    output = {"topk_slots": next(iter(inputs.outputs)), "block_table": next(iter(inputs.outputs)), "mla_metadata": "kv_indices"}.get(op)

    def back(outputs: dict[str, Any]) -> relations.Mapped:
        outputs = dict(outputs)
        if output:
            per, slots = _per_page(op, inputs), outputs[output].cpu().long()
            page = slots.div(per, rounding_mode="floor")
            home = _mapped(page, *_inverse(old, new), LOST) * per + slots % per
            outputs[output] = slots.where(slots < 0, home).to(outputs[output].dtype)
        return relations.unmoved(inputs)(outputs)

    return changed, back


def _per_page(op: str, inputs: Inputs) -> int:
    given = inputs.scalars
    if op == "topk_slots":
        return given["block_stride"]
    if op == "mla_metadata":
        return given["block_size"] // given["page_size"]
    return given["manager_block_size"] // given["tokens_per_state"]


def _mapped(values: Any, old: Any, new: Any, lost: int | None = None) -> Any:
    """Ids under their new numbers; others stay, or are `lost`."""
    import torch

    if not len(old):
        return values
    at = torch.searchsorted(old, values.contiguous()).clamp(max=len(old) - 1)
    return torch.where(old[at] == values, new[at], values if lost is None else torch.full_like(values, lost))


def _inverse(old: Any, new: Any) -> tuple[Any, Any]:
    order = new.argsort()
    return new[order], old[order]


def _moved(cache: Any, old: Any, new: Any, count: int, device: Any) -> Any:
    """A pool of some size with the pages under their new ids; elsewhere a page that no id led to."""
    import torch

    spare = torch.ones(len(cache), dtype=torch.bool)
    spare[old] = False
    at = int(spare.nonzero()[0]) if bool(spare.any()) else 0
    pages = cache[at : at + 1].to(device).repeat(count, *[1] * (cache.dim() - 1))
    pages[new.to(device)] = cache[old].to(device)
    return relations.laid_like(cache, pages)


def _home(out: Any, before: Any, old: Any, new: Any) -> tuple[Any, Any]:
    """The pages of an output under their old ids; those that were dropped hold what they held, and are not compared."""
    import torch

    value = before.contiguous().clone()
    value[old] = out[new.to(out.device)].cpu()
    compared = torch.zeros(before.shape, dtype=torch.bool)
    compared[old] = True
    return value, compared
