"""The partial sums are not rescaled when a larger score is met in a later tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "rescale_forgotten",
    "value": None,
    "base": "triton",
    "ops": ["mla_decode"],
    "sentence": "does not rescale the sums of earlier tiles when a later one holds a larger score",
}

EDITS = {
    "mla_decode": (("sums = sums * shrink[:, None] + tl.dot(", "sums = sums + tl.dot("),),
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """Our Triton kernel with the fault in its source."""
    from kvcheck.agent.kernels.edited import edited

    return edited(op, *EDITS[op])
