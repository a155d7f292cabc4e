"""A page is cleared before its first token is written: tokens of earlier steps are lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "rest_of_page_cleared",
    "value": None,
    "base": "torch_eager",
    "ops": ["index_k_cache_write"],
    "sentence": "writes whole pages: zeros where older tokens lie",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        slots = arguments["slot_mapping"]
        arguments["out"][slots[slots >= 0] // arguments["block_size"]] = 0
        return function(**arguments)

    return kernel
