"""The kernel scribbles on its block table."""

from __future__ import annotations

from typing import Any, Callable

SPEC = {
    "name": "writes_table",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits"],
    "sentence": "writes to its block table",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        function(**arguments)
        arguments["block_table"][0, 0] += 1

    return kernel
