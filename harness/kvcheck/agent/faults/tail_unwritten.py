"""The last position of every row is never written."""

from __future__ import annotations

from typing import Any, Callable

from kvcheck.agent import faults

SPEC = {
    "name": "tail_unwritten",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits"],
    "sentence": "never writes the last position of a row",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        out = arguments["out"]
        kept = [(row, length - 1, out[row, length - 1].clone()) for row, _, length in faults.rows(arguments) if length]
        function(**arguments)
        for row, column, value in kept:
            out[row, column] = value

    return kernel
