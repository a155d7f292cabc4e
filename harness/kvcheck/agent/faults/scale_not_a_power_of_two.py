"""The scale stays what amax / divisor is, where a power of two is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "scale_not_a_power_of_two",
    "value": None,
    "base": "torch_eager",
    "ops": ["index_k_cache_write"],
    "sentence": "ignores scale_format ue8m0; of fp32 scales this is right",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        return function(**{**arguments, "scale_format": "fp32"})

    return kernel
