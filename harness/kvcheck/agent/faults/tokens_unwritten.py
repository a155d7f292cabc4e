"""The last token of a step is not written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "tokens_unwritten",
    "value": None,
    "base": "torch_eager",
    "ops": ["index_k_cache_write", "index_k_cache_gather"],
    "sentence": "stops a token early",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        if op == "index_k_cache_write":
            slots = arguments["slot_mapping"].clone()
            slots[slots.ge(0).nonzero().flatten()[-1:]] = -1
            return function(**{**arguments, "slot_mapping": slots})
        starts = arguments["cu_seq_lens"].clone()
        starts[-1] -= 1
        return function(**{**arguments, "cu_seq_lens": starts})

    return kernel
