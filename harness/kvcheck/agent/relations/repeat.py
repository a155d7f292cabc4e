"""The same call again: not a bit may change."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.relations import Variant, unmoved

SPEC = {"name": "repeat", "demand": "bits", "doc": "the same call again"}


def variants(op: str, inputs: Any, generator: Any, reach: int) -> list[Variant]:
    """The call itself."""
    return [Variant("the same call again", inputs, unmoved(inputs))]
