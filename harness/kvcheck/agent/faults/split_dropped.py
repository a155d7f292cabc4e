"""The last part of the context is lost in the merge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.agent import faults

SPEC = {
    "name": "split_dropped",
    "value": None,
    "base": "torch_eager",
    "ops": ["mla_decode"],
    "sentence": "loses the last split of the context",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        splits = arguments["num_splits"]

        def listed(request: int, token: int, seen: int) -> Any:
            return faults.mla_slots(arguments, request, seen - -(-seen // splits) if splits > 1 else seen)

        out, lse = faults.mla_rows(function, arguments, listed)
        arguments["out"].copy_(out)
        arguments["lse"].copy_(lse)

    return kernel
