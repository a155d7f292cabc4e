"""Splits that hold no token leave their scratch as it was, and the merge reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "stale_split_read",
    "value": None,
    "base": "triton",
    "ops": ["mla_decode"],
    "sentence": "leaves the scratch of splits without tokens unwritten and merges it: stale memory",
}

EDITS = {
    "mla_decode": (
        ("tl.store(top_ptr + part, top, mask=head < num_heads)", "tl.store(top_ptr + part, top, mask=(head < num_heads) & (begin < end))"),
        (
            "tl.store(total_ptr + part, total, mask=head < num_heads)",
            "tl.store(total_ptr + part, total, mask=(head < num_heads) & (begin < end))",
        ),
    ),
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """Our Triton kernel with the fault in its source."""
    from kvcheck.agent.kernels.edited import edited

    return edited(op, *EDITS[op])
