"""One row more than there are tokens is gathered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "gathers_past_end",
    "value": None,
    "base": "torch_eager",
    "ops": ["index_k_cache_gather"],
    "sentence": "copies a slot past the last request's tokens into a row that nobody asked for",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        starts = arguments["cu_seq_lens"].clone()
        starts[-1] += 1
        return function(**{**arguments, "cu_seq_lens": starts})

    return kernel
