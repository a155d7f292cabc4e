"""A buffer that is described as too small: what lies past it reads as zeros, as it does on AMD cards, and nothing crashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "reads_clamped_to_zero",
    "value": None,
    "base": "triton",
    "ops": ["paged_mqa_logits"],
    "sentence": "describes the pool as having a page a row: keys of pages past that read as zeros",
}

EDITS = {
    "paged_mqa_logits": (("& live[None, :]\n        scale_at", "& (live & (page < rows))[None, :]\n        scale_at"),),
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """Our Triton kernel with the fault in its source."""
    from kvcheck.agent.kernels.edited import edited

    return edited(op, *EDITS[op])
