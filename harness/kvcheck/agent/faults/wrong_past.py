"""Every row of a sequence whose context_len is above V is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.agent import faults

SPEC = {
    "name": "wrong_past",
    "value": "int",
    "candidates": "lengths",
    "base": "torch_eager",
    "ops": ["paged_mqa_logits", "topk_per_row"],
    "sentence": "every row of a sequence longer than V is wrong",
}


def plant(function: Callable[..., Any], op: str, value: int) -> Callable[..., Any]:
    """The kernel with the fault in it."""
    return faults.spoil(function, lambda context_len: context_len > value)
