"""Each row lets one position too many through: a finite value stands in column L."""

from __future__ import annotations

from typing import Any, Callable

from kvcheck.agent import faults

SPEC = {
    "name": "mask_off_by_one",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits"],
    "sentence": "each row lets one position too many through (the mask of aiter before 2025-11-18)",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        function(**arguments)
        out = arguments["out"]
        for row, context_len, length in faults.rows(arguments):
            if context_len and length < out.shape[1]:
                out[row, length] = 0.0

    return kernel
