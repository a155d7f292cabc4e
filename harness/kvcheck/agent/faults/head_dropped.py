"""The last head is left out of the sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "head_dropped",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits", "mqa_logits"],
    "sentence": "leaves the last head out of the sum",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        weights = arguments["weights"].clone()
        weights[:, -1] = 0
        return function(**{**arguments, "weights": weights})

    return kernel
