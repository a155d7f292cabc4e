"""Block sizes that do not divide are not refused: the table is passed through as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "refusal_missing",
    "value": None,
    "base": "torch_eager",
    "ops": ["block_table"],
    "sentence": "answers for block sizes that do not divide, with the table passed through as it is",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it; right wherever an answer is right."""

    def kernel(**arguments: Any) -> Any:
        try:
            return function(**arguments)
        except ValueError:
            size = arguments["manager_block_size"]
            sizes = {"kernel_block_size": size, "storage_block_size": size, "tokens_per_state": 1}
            return function(**{**arguments, **sizes})

    return kernel
