"""The last token of a page is read from the next page: off by one at the block boundary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "page_turned_early",
    "value": None,
    "base": "triton",
    "ops": ["paged_mqa_logits", "index_k_cache_gather"],
    "sentence": "turns the page a token early: the last token of a block is read from the next one",
}

EDITS = {
    "paged_mqa_logits": (
        (
            "table_stride + position // block_size, mask=live",
            "table_stride + tl.minimum(position + 1, length - 1) // block_size, mask=live",
        ),
    ),
    "index_k_cache_gather": (
        (
            "table_stride + position // block_size, mask=live",
            "table_stride + tl.minimum(position + 1, length - 1) // block_size, mask=live",
        ),
    ),
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """Our Triton kernel with the fault in its source."""
    from kvcheck.agent.kernels.edited import edited

    return edited(op, *EDITS[op])
