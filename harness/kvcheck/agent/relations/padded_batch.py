"""Padding rows of context 0 before and behind the batch: its own rows keep their answer."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.relations import Variant, _batch

SPEC = {"name": "padded_batch", "demand": "bound", "doc": "a padding row before the batch, and two behind it"}


def variants(op: str, inputs: Any, generator: Any, reach: int) -> list[Variant]:
    """The call with three units more, which have no tokens."""
    count = _batch.units(op, inputs)
    changed, back = _batch.taken(op, inputs, [_batch.PADDING, *range(count), _batch.PADDING, _batch.PADDING])
    return [Variant("padding rows before and behind the batch", changed, back, True, params={"batch": count + 3})]
