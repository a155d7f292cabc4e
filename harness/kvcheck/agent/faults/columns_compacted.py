"""Slots are moved to the front of their row, -1 to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "columns_compacted",
    "value": None,
    "base": "torch_eager",
    "ops": ["topk_slots"],
    "sentence": "packs the valid slots of a row; where -1 stands only at the end this is right",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        function(**arguments)
        out = arguments["out"]
        order = (out < 0).int().sort(dim=1, stable=True).indices
        out.copy_(out.gather(1, order))

    return kernel
