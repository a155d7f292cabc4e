"""Slots are numbered as if pages lay end to end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "stride_taken_as_block_size",
    "value": None,
    "base": "torch_eager",
    "ops": ["topk_slots"],
    "sentence": "multiplies the page by block_size where block_stride is more",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        return function(**{**arguments, "block_stride": arguments["block_size"]})

    return kernel
