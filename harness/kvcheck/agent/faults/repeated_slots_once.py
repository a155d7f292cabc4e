"""A slot that is listed twice is attended to once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.agent import faults

SPEC = {
    "name": "repeated_slots_once",
    "value": None,
    "base": "torch_eager",
    "ops": ["mla_decode"],
    "sentence": "counts a slot that is listed twice only once",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        out, lse = faults.mla_rows(function, arguments, lambda request, token, seen: faults.mla_slots(arguments, request, seen).unique())
        arguments["out"].copy_(out)
        arguments["lse"].copy_(lse)

    return kernel
