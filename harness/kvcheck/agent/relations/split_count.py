"""The context in another number of parts: the merge gives the same attention, within the roundings of both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvcheck.agent.relations import Variant, unmoved

SPEC = {"name": "split_count", "demand": "bound", "doc": "the context in another number of parts"}

MOST = 64


def variants(op: str, inputs: Any, generator: Any, reach: int) -> list[Variant]:
    """The call in one part (two where it was one), and in more parts than it had."""
    given = inputs.scalars["num_splits"]
    found = []
    for count in (1 if given > 1 else 2, min(2 * given + 1, MOST) if given < MOST else 3):
        changed = replace(inputs, scalars={**inputs.scalars, "num_splits": count})
        what = f"the context in {count} part{'s' if count > 1 else ''} instead of {given}"
        found.append(Variant(what, changed, unmoved(inputs), True, params={"num_splits": count}))
    return found
