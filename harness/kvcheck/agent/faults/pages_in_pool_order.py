"""The tokens of a request are summed in the order in which they lie in the pool: right, but other bits wherever pages lie elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.agent import faults

SPEC = {
    "name": "pages_in_pool_order",
    "value": None,
    "base": "torch_eager",
    "ops": ["mla_decode"],
    "relation": "page_permutation",
    "sentence": "sums a request's tokens in the order of their slots, so that the bits depend on where pages lie",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        def listed(request: int, token: int, seen: int) -> Any:
            return faults.mla_slots(arguments, request, seen).sort().values

        out, lse = faults.mla_rows(function, arguments, listed)
        arguments["out"].copy_(out)
        arguments["lse"].copy_(lse)

    return kernel
