"""The last page of every request but its first is read from the page before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.agent import faults

SPEC = {
    "name": "page_skipped",
    "value": None,
    "base": "torch_eager",
    "ops": ["mla_decode"],
    "sentence": "reads the page before the last in the place of the last",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        size = arguments["page_size"]

        def listed(request: int, token: int, seen: int) -> Any:
            slots = faults.mla_slots(arguments, request, seen)
            last = (seen - 1) // size * size
            if seen > size:
                slots[last:] = slots[last - size : seen - size]
            return slots

        out, lse = faults.mla_rows(function, arguments, listed)
        arguments["out"].copy_(out)
        arguments["lse"].copy_(lse)

    return kernel
