"""The unused tail of the last page is attended to: lengths rounded up to whole pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.agent import faults

SPEC = {
    "name": "tail_of_last_page_attended",
    "value": None,
    "base": "torch_eager",
    "ops": ["mla_decode"],
    "sentence": "attends to the unused tail of the last page",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        size = arguments["page_size"]
        out, lse = faults.mla_rows(
            function, arguments, lambda request, token, seen: faults.mla_slots(arguments, request, -(-seen // size) * size)
        )
        arguments["out"].copy_(out)
        arguments["lse"].copy_(lse)

    return kernel
