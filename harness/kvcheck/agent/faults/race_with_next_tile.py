"""Each program clears the tile behind its own last of all, while another program fills it: right one after the other, a race otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "race_with_next_tile",
    "value": None,
    "base": "triton",
    "ops": ["paged_mqa_logits"],
    "parallel": True,
    "sentence": "clears the tile behind its own after storing it, while another program fills that one: a race",
}

STORE = "        tl.store(out_ptr + row.to(tl.int64) * out_stride + position, logits, mask=live)"

CLEAR = """
        behind = out_ptr + row.to(tl.int64) * out_stride + position + TOKENS
        tl.store(behind, tl.full([TOKENS], float("-inf"), tl.float32), mask=position + TOKENS < length)"""


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """Our Triton kernel with the fault in its source."""
    from kvcheck.agent.kernels.edited import edited

    return edited(op, (STORE, STORE + CLEAR))
