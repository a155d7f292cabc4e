"""The scale is made for the other FP8 format: 448 where 240 or 224 is asked for, 224 where 448 is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "divisor_mistaken",
    "value": None,
    "base": "torch_eager",
    "ops": ["index_k_cache_write"],
    "sentence": "divides amax by the largest number of the other format: scales off by two, codes saturated or one bit short",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        divisor = 224 if arguments["divisor"] == 448 else 448
        return function(**{**arguments, "divisor": divisor})

    return kernel
