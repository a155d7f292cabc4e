"""lse is returned in base 2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "lse_base_2",
    "value": None,
    "base": "torch_eager",
    "ops": ["mla_decode"],
    "sentence": "returns lse as a logarithm to base 2 instead of the natural one",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        function(**arguments)
        arguments["lse"].mul_(1.4426950408889634)

    return kernel
