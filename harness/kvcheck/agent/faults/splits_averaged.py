"""Parts of the context are averaged instead of weighed by exp(lse): the rescale is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.agent import faults

SPEC = {
    "name": "splits_averaged",
    "value": None,
    "base": "torch_eager",
    "ops": ["mla_decode"],
    "sentence": "averages the splits instead of weighing each by exp(lse - total)",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        import torch

        function(**arguments)
        splits, parts = arguments["num_splits"], []
        for nth in range(splits):

            def listed(request: int, token: int, seen: int, nth: int = nth) -> Any:
                chunk = max(-(-seen // splits), 1)
                return faults.mla_slots(arguments, request, seen)[nth * chunk : (nth + 1) * chunk]

            out, lse = faults.mla_rows(function, {**arguments, "empty_row": "zero_inf"}, listed)
            parts.append((out.float(), torch.isfinite(lse)[..., None]))
        count = sum(live.float() for _, live in parts)
        mean = sum(out * live for out, live in parts) / count.clamp(min=1)
        arguments["out"].copy_(torch.where(count > 0, mean, arguments["out"].float()))

    return kernel
