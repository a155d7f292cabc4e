"""Tokens whose slot is -1 are written: into the last slot of the pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "padding_written",
    "value": None,
    "base": "torch_eager",
    "ops": ["index_k_cache_write"],
    "sentence": "writes padding tokens into the slot before slot 0, which is the last one",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        cache, slots = arguments["out"], arguments["slot_mapping"]
        last = cache.shape[0] * cache.shape[1] - 1
        return function(**{**arguments, "slot_mapping": slots.where(slots >= 0, slots * 0 + last)})

    return kernel
