"""Physical pages change places, and every id that leads to them: not a bit may change."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.relations import Variant, _pages

SPEC = {"name": "page_permutation", "demand": "bits", "doc": "physical pages change places, and the ids that lead to them"}


def variants(op: str, inputs: Any, generator: Any, reach: int) -> list[Variant]:
    """The call with its pages under each other's ids; none where there are fewer than two."""
    import torch

    cached = op == "index_k_cache_write" or "kv_cache" in inputs.tensors
    old = torch.arange(_pages.pool(op, inputs)) if cached else _pages.ids(op, inputs)
    if len(old) < 2 or not len(_pages.ids(op, inputs)):
        return []
    order = generator.permutation("relation/page_permutation", len(old))
    if bool((order == torch.arange(len(old))).all()):
        order = order.roll(1)
    count = _pages.pool(op, inputs)
    changed, back = _pages.renumbered(op, inputs, old, old[order], count)
    return [Variant(f"{len(old)} pages in another order", changed, back)]
