"""-1 is taken for position 0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "padding_mapped",
    "value": None,
    "base": "torch_eager",
    "ops": ["topk_slots"],
    "sentence": "turns -1 into the slot of the request's first token, which the attention then counts once more",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        return function(**{**arguments, "topk_positions": arguments["topk_positions"].clamp(min=0)})

    return kernel
