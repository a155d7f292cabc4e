"""Every query token of a request sees all of its tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.agent import faults

SPEC = {
    "name": "causal_mask_missing",
    "value": None,
    "base": "torch_eager",
    "ops": ["mla_decode"],
    "sentence": "lets every query token see the tokens after it",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        length = faults.mla_lengths(arguments)
        out, lse = faults.mla_rows(function, arguments, lambda request, token, seen: faults.mla_slots(arguments, request, length[request]))
        arguments["out"].copy_(out)
        arguments["lse"].copy_(lse)

    return kernel
