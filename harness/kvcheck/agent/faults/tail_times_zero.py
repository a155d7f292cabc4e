"""The unused tail of the last page is multiplied by a weight of 0 (BUGS 8): 0 * NaN poisons the row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.agent import faults

SPEC = {
    "name": "tail_times_zero",
    "value": None,
    "base": "torch_eager",
    "ops": ["mla_decode"],
    "sentence": "multiplies what lies in the unused tail of the last page by 0, which is not 0 for NaN or infinity",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        function(**arguments)
        size = arguments["page_size"]

        def listed(request: int, token: int, seen: int) -> Any:
            return faults.mla_slots(arguments, request, -(-seen // size) * size)[seen:]

        tail, _ = faults.mla_rows(function, {**arguments, "empty_row": "zero_inf"}, listed)
        arguments["out"].add_(0 * tail)

    return kernel
