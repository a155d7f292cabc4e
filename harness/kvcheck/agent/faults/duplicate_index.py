"""The first selected position stands twice."""

from __future__ import annotations

from typing import Any, Callable

SPEC = {
    "name": "duplicate_index",
    "value": None,
    "base": "torch_eager",
    "ops": ["topk_per_row"],
    "sentence": "returns one position twice and leaves another out",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        function(**arguments)
        out = arguments["out"]
        if out.shape[1] > 1:
            out[:, 1] = out[:, 0].clone()

    return kernel
