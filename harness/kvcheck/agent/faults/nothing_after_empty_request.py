"""A request of context 0 ends the walk over the batch: nothing is written for the requests behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "nothing_after_empty_request",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits"],
    "sentence": "stops at the first request of context 0: the requests behind it are never written",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        lens = arguments["context_lens"]
        longest = lens if lens.dim() == 1 else lens.amax(1)
        empty = (longest == 0).nonzero().flatten().tolist()
        if not empty:
            return function(**arguments)
        first, next_n = empty[0], arguments["q"].shape[1]
        cut = {name: arguments[name][:first] for name in ("q", "context_lens", "block_table")}
        cut |= {name: arguments[name][: first * next_n] for name in ("weights", "out")}
        return function(**{**arguments, **cut}) if first else None

    return kernel
