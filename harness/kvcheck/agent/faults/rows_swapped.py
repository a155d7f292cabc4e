"""Rows are stored query token by query token, not sequence by sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "rows_swapped",
    "value": None,
    "base": "triton",
    "ops": ["paged_mqa_logits"],
    "sentence": "stores row [sequence, query token] as [query token, sequence]",
}

EDITS = {
    "paged_mqa_logits": (
        (
            "tl.store(out_ptr + row.to(tl.int64) * out_stride + position",
            "tl.store(out_ptr + (row % next_n * (rows // next_n) + request).to(tl.int64) * out_stride + position",
        ),
    ),
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """Our Triton kernel with the fault in its source."""
    from kvcheck.agent.kernels.edited import edited

    return edited(op, *EDITS[op])
