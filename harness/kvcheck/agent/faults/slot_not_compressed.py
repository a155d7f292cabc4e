"""Slots are counted in tokens although a state of the cache holds several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "slot_not_compressed",
    "value": None,
    "base": "torch_eager",
    "ops": ["block_table"],
    "sentence": "gives slots in tokens where the cache holds one state for several (640-token managers with 864 slots, vLLM 54359)",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it; right at one token a state."""

    def kernel(**arguments: Any) -> Any:
        if arguments["storage_block_size"] % arguments["tokens_per_state"]:
            return function(**arguments)
        return function(**{**arguments, "tokens_per_state": 1})

    return kernel
