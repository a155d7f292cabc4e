"""Every row of a sequence whose context_len lies in A..B, both included, is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.agent import faults

SPEC = {
    "name": "wrong_between",
    "value": "range",
    "candidates": "lengths",
    "base": "torch_eager",
    "ops": ["paged_mqa_logits", "topk_per_row"],
    "sentence": "every row of a sequence of A to B tokens is wrong",
}


def plant(function: Callable[..., Any], op: str, value: tuple[int, int]) -> Callable[..., Any]:
    """The kernel with the fault in it."""
    return faults.spoil(function, lambda context_len: value[0] <= context_len <= value[1])
