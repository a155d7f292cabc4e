"""Requests of a batch taken out, put in another order, or joined by padding rows.

A unit is a request; a query row where an op knows no requests; a token of the key writer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kvcheck.agent.inputs.bundle import Inputs
from kvcheck.agent.relations import Mapped, laid_like, promised

PADDING = -1
COUNTED = {
    "paged_mqa_logits": "context_lens",
    "mla_decode": "last_page_len",
    "topk_per_row": "context_lens",
    "topk_slots": "request_ids",
    "mla_metadata": "context_lens",
    "index_k_cache_gather": "block_table",
    "block_table": "block_table",
    "mqa_logits": "ks",
    "index_k_cache_write": "slot_mapping",
}
"""The tensor that has a row a unit."""

WHOLE = {
    "topk_slots": {"block_table"},
    "mqa_logits": {"k", "k_scale"},
    "mla_decode": {"kv_cache", "kv_indptr", "kv_indices"},
    "paged_mqa_logits": {"kv_cache"},
    "index_k_cache_gather": {"kv_cache", "cu_seq_lens"},
    "block_table": {"request_ids", "positions"},
}
"""Tensors that are not by unit."""

EMPTY = {"topk_positions": -1, "slot_mapping": -1}
"""What a padding row holds; 0 elsewhere."""


def units(op: str, inputs: Inputs) -> int:
    """How many there are."""
    return inputs.tensors[COUNTED[op]].shape[0]


def taken(op: str, inputs: Inputs, order: list[int]) -> tuple[Inputs, Callable[[dict[str, Any]], Mapped]]:
    """The call with some of its units.

    Args:
        op: name of the op.
        inputs: the call.
        order: numbers of units; PADDING for one without tokens.

    Returns:
        inputs: the call.
        back: maps its outputs onto those of the call it was made from.
    """

    count = units(op, inputs)
    tensors = {
        name: tensor if name in WHOLE.get(op, ()) else laid_like(tensor, _rows(tensor, order, count, EMPTY.get(name, 0)))
        for name, tensor in inputs.tensors.items()
    }
    changed = replace(inputs, tensors=tensors)
    if op == "mla_decode":
        _lists(changed, inputs, order)
    if op == "index_k_cache_write":  # the pool stays whole: only who writes to it changes
        return changed, lambda outputs: _pool(outputs, inputs, order)
    if op == "index_k_cache_gather":
        return _gathered(changed, inputs, order)
    if op == "block_table":
        return _tokens(changed, inputs, order)
    if op == "mla_metadata":
        return _metadata(changed, inputs, order)
    changed.outputs = {name: ((shape[0] // count * len(order), *shape[1:]), dtype) for name, (shape, dtype) in inputs.outputs.items()}
    changed.inside = {name: _rows(mask, order, count, 0) for name, mask in inputs.inside.items()}
    if inputs.row_lengths is not None:
        changed.row_lengths = _rows(inputs.row_lengths, order, count, 0)

    def back(outputs: dict[str, Any]) -> Mapped:
        return {name: _home(value.cpu(), promised(inputs, name), order, count) for name, value in outputs.items()}

    return changed, back


def only(inputs: Inputs, op: str, kept: list[int]) -> Callable[[dict[str, Any]], Mapped]:
    """The `back` of a call in which all but some units were changed."""
    import torch

    count = units(op, inputs)
    chosen = torch.zeros(count, dtype=torch.bool)
    chosen[kept] = True

    def back(outputs: dict[str, Any]) -> Mapped:
        if op == "index_k_cache_write":
            return _pool(outputs, inputs, kept)
        found = {}
        for name, value in outputs.items():
            mask = promised(inputs, name)
            found[name] = (value, mask & chosen.repeat_interleave(len(mask) // count).view(-1, *[1] * (mask.dim() - 1)))
        return found

    return back


def _rows(tensor: Any, order: list[int], count: int, empty: int) -> Any:
    """Rows of some units, those of PADDING empty."""
    import torch

    each = tensor.contiguous().view(count, tensor.shape[0] // count, *tensor.shape[1:])
    octets = each.view(torch.uint8) if tensor.dtype.is_floating_point and tensor.element_size() == 1 else each
    found = octets[torch.tensor(order).clamp(min=0)]
    found[torch.tensor(order) == PADDING] = empty
    return found.view(each.dtype).flatten(0, 1)


def _home(value: Any, mask: Any, order: list[int], count: int) -> tuple[Any, Any]:
    """Rows of an output at the places of their units."""
    import torch

    per = mask.shape[0] // count
    home, known = torch.zeros(mask.shape, dtype=value.dtype), torch.zeros(mask.shape, dtype=torch.bool)
    for at, unit in enumerate(order):
        if unit != PADDING:
            home[unit * per : unit * per + per] = value[at * per : at * per + per]
            known[unit * per : unit * per + per] = mask[unit * per : unit * per + per]
    return home, known


def _pool(outputs: dict[str, Any], inputs: Inputs, kept: list[int]) -> Mapped:
    """The bytes of some tokens in the pool."""
    import torch

    from kvcheck.agent.layouts import block_flat, shuffled

    given = outputs["kv_cache"].cpu()
    owned = torch.zeros(given.shape, dtype=torch.uint8)
    slots = inputs.tensors["slot_mapping"][[unit for unit in kept if unit != PADDING]]
    slots = slots[slots >= 0]
    ones = torch.full((len(slots),), 0x01010101, dtype=torch.int32).view(torch.float32)
    block_flat.scatter(owned, slots, torch.ones(len(slots), given.shape[-1] - 4, dtype=torch.uint8), ones)
    return {"kv_cache": (given, (shuffled.write(owned) if inputs.scalars["layout"] == "shuffled" else owned).bool())}


def _lists(changed: Inputs, inputs: Inputs, order: list[int]) -> None:
    import torch

    first, indices = inputs.tensors["kv_indptr"].tolist(), inputs.tensors["kv_indices"]
    parts = [indices[first[unit] : first[unit + 1]] if unit != PADDING else indices[:0] for unit in order]
    changed.tensors["kv_indptr"] = torch.tensor([0] + [len(part) for part in parts]).cumsum(0).to(torch.int32)
    changed.tensors["kv_indices"] = torch.cat([*parts, indices[first[-1] :]])
    for at, unit in enumerate(order):
        if unit == PADDING:
            changed.tensors["last_page_len"][at] = inputs.scalars["page_size"]


def _gathered(changed: Inputs, inputs: Inputs, order: list[int]) -> tuple[Inputs, Callable[[dict[str, Any]], Mapped]]:
    import torch

    first = inputs.tensors["cu_seq_lens"].tolist()
    rows = [torch.arange(first[unit], first[unit + 1]) if unit != PADDING else torch.arange(0) for unit in order]
    changed.tensors["cu_seq_lens"] = torch.tensor([0] + [len(each) for each in rows]).cumsum(0).to(torch.int32)
    mine = torch.cat(rows)
    every = torch.cat((mine, torch.arange(first[-1], len(inputs.initial["k_scale"]))))
    changed.initial = {name: value[every] for name, value in inputs.initial.items()}
    changed.outputs = {name: ((len(every), *shape[1:]), dtype) for name, (shape, dtype) in inputs.outputs.items()}
    changed.inside = {}

    def back(outputs: dict[str, Any]) -> Mapped:
        found = {}
        for name, value in outputs.items():
            home, known = inputs.initial[name].clone(), torch.zeros(inputs.outputs[name][0], dtype=torch.bool)
            home[every], known[every] = value.cpu(), True
            found[name] = (home, known)
        return found

    return changed, back


def _tokens(changed: Inputs, inputs: Inputs, order: list[int]) -> tuple[Inputs, Callable[[dict[str, Any]], Mapped]]:
    """Tokens of some requests, and the batch's own padding tokens."""
    import torch

    owner, positions = inputs.tensors["request_ids"], inputs.tensors["positions"]
    lists = [(owner == unit).nonzero().flatten() if unit != PADDING else torch.arange(0) for unit in order]
    every = torch.cat([*lists, (owner < 0).nonzero().flatten()])
    renamed = [torch.full((len(each),), at, dtype=owner.dtype) for at, each in enumerate(lists)]
    changed.tensors.update(request_ids=torch.cat([*renamed, owner[owner < 0]]), positions=positions[every])
    changed.outputs = {name: ((len(every),), dtype) for name, (_, dtype) in inputs.outputs.items()}

    def back(outputs: dict[str, Any]) -> Mapped:
        ((name, value),) = outputs.items()
        home, known = torch.full((len(owner),), -1, dtype=value.dtype), torch.zeros(len(owner), dtype=torch.bool)
        home[every], known[every] = value.cpu(), True
        return {name: (home, known)}

    return changed, back


def _metadata(changed: Inputs, inputs: Inputs, order: list[int]) -> tuple[Inputs, Callable[[dict[str, Any]], Mapped]]:
    import torch

    size, lens = inputs.scalars["page_size"], inputs.tensors["context_lens"].tolist()
    pages = [-(-n // size) for n in lens]
    first = torch.tensor([0, *pages]).cumsum(0).tolist()
    mine = [pages[unit] if unit != PADDING else 0 for unit in order]
    counts = {"kv_indices": sum(mine), "last_page_len": len(order)}
    changed.outputs = {name: ((counts.get(name, len(order) + 1),), dtype) for name, (_, dtype) in inputs.outputs.items()}
    indptrs = [name for name in inputs.outputs if name not in counts]
    known = promised(inputs, "last_page_len")
    changed.inside = {"last_page_len": _rows(known, order, len(lens), 0)}

    def back(outputs: dict[str, Any]) -> Mapped:
        given = {name: value.cpu() for name, value in outputs.items()}
        found = {"last_page_len": _home(given["last_page_len"], known, order, len(lens))}
        home, seen = torch.zeros(sum(pages), dtype=torch.int32), torch.zeros(sum(pages), dtype=torch.bool)
        ends = {name: (torch.zeros(len(lens) + 1, dtype=torch.int32), torch.zeros(len(lens) + 1, dtype=torch.bool)) for name in indptrs}
        at, before = 0, []
        for place, unit in enumerate(order):
            if unit != PADDING:
                home[first[unit] : first[unit + 1]], seen[first[unit] : first[unit + 1]] = given["kv_indices"][at : at + mine[place]], True
                for name, (end, told) in ends.items():  # the same requests come before it: so do as many pages and parts
                    end[unit + 1], told[unit + 1] = given[name][place + 1], before == list(range(unit))
                before.append(unit)
            at += mine[place]
        return {**found, "kv_indices": (home, seen), **ends}

    return changed, back
