"""Logits are stored from the start of the row's window on, as in a compressed output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "columns_from_window_start",
    "value": None,
    "base": "torch_eager",
    "ops": ["mqa_logits"],
    "sentence": "column c holds the score of token ks + c; of windows that begin at 0 this is right",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        function(**arguments)
        out = arguments["out"]
        for row, (first, end) in enumerate(zip(arguments["ks"].tolist(), arguments["ke"].tolist(), strict=True)):
            line = out[row, first:end].clone()
            out[row, first:end] = float("-inf")
            out[row, : len(line)] = line

    return kernel
