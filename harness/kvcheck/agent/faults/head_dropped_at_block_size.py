"""The path of one block size leaves the last head out of the sum; a case of another block size never takes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "head_dropped_at_block_size",
    "value": "int",
    "base": "torch_eager",
    "ops": ["paged_mqa_logits"],
    "relation": "block_size",
    "sentence": "leaves the last head out of the sum where pages have V tokens",
}


def plant(function: Callable[..., Any], op: str, value: int) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        weights = arguments["weights"].clone()
        if arguments["block_size"] == value:
            weights[:, -1] = 0
        return function(**{**arguments, "weights": weights})

    return kernel
