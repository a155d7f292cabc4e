"""A position past the table is looked up in its last column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "past_table_clamped",
    "value": None,
    "base": "torch_eager",
    "ops": ["topk_slots"],
    "sentence": "gives a slot of the last page where -1 is due",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        last = arguments["block_table"].shape[1] * arguments["block_size"] - 1
        return function(**{**arguments, "topk_positions": arguments["topk_positions"].clamp(max=last)})

    return kernel
