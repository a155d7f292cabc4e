"""A request is alone what it is in the batch, and what its neighbours hold changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvcheck.agent.relations import Variant, _batch

SPEC = {
    "name": "batch_neighbour",
    "demand": "bits where the neighbours hold other values, bound where a request is alone",
    "doc": "other values in the neighbours' queries, and a request alone",
}


def variants(op: str, inputs: Any, generator: Any, reach: int) -> list[Variant]:
    """Every second unit stirred, the others stirred, the first one alone, the last one alone; none where there is but one."""
    count = _batch.units(op, inputs)
    if count < 2:
        return []
    found = []
    for parity, name in ((0, "first, third, ..."), (1, "second, fourth, ...")):
        kept, others = list(range(parity, count, 2)), list(range(1 - parity, count, 2))
        changed = _stirred(op, inputs, others, count)
        if changed:
            what = f"other values in all but the {name} {_unit(op)}"
            found.append(Variant(what, changed, _batch.only(inputs, op, kept)))
    for unit in (0, count - 1):
        changed, back = _batch.taken(op, inputs, [unit])
        found.append(Variant(f"{_unit(op)} {unit} alone", changed, back, True, params={"batch": 1}))
    return found


def _unit(op: str) -> str:
    return {"topk_slots": "row", "mqa_logits": "row", "index_k_cache_write": "token"}.get(op, "request")


def _stirred(op: str, inputs: Any, others: list[int], count: int) -> Any:
    """The call with other values, of another size, in some units; None where an op has no values of a unit's own."""
    tensors = {}
    for name, factor in {"q": 0.5, "weights": -3.0, "logits": -1.0, "k": -0.5}.items():
        if name not in inputs.tensors or (name == "k" and op != "index_k_cache_write"):
            continue
        tensor = inputs.tensors[name].clone()
        units = tensor.view(count, tensor.shape[0] // count, *tensor.shape[1:])
        if tensor.element_size() == 1:  # FP8: heads change places instead
            units = units.view(dtype=_octets())
            units[others] = units[others].flip(-2)
        else:
            units[others] = units[others] * factor
        tensors[name] = tensor
    return replace(inputs, tensors={**inputs.tensors, **tensors}) if tensors else None


def _octets() -> Any:
    import torch

    return torch.uint8
