"""The last tile of a row is stored past the row's end, over the first columns of the next row (aiter #2866)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "whole_tile_stored",
    "value": None,
    "base": "triton",
    "ops": ["paged_mqa_logits"],
    "sentence": "stores the last tile past the end of its row",
}

EDITS = {
    "paged_mqa_logits": (
        ("position, logits, mask=live)", 'position, tl.where(live, logits, float("-inf")), mask=position < out_stride + 16)'),
    ),
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """Our Triton kernel with the fault in its source."""
    from kvcheck.agent.kernels.edited import edited

    return edited(op, *EDITS[op])
