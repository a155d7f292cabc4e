"""Weights are divided by the largest of the whole batch, and the logits multiplied by it: what a row holds depends on its neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "scale_of_batch",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits", "mqa_logits"],
    "relation": "batch_neighbour",
    "sentence": "scales weights by the largest of the whole batch, so that a row's last bits depend on its neighbours",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        largest = arguments["weights"].abs().max().clamp(min=2.0**-60)
        function(**{**arguments, "weights": arguments["weights"] / largest})
        arguments["out"].mul_(largest)

    return kernel
