"""Padding tokens of a batch get slot 0 instead of -1: their keys are written into the null block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "padding_token_in_null_block",
    "value": None,
    "base": "torch_eager",
    "ops": ["block_table"],
    "sentence": "gives padding tokens slot 0 instead of -1",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        result = function(**arguments)
        arguments["out"][arguments["request_ids"] < 0] = 0
        return result

    return kernel
