"""A cache whose pages lie apart takes another path, which sums the heads backwards: right, but other bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "other_order_when_strided",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits"],
    "relation": "strided_against_contiguous",
    "sentence": "sums heads in another order when pages lie apart, so that the bits depend on the stride",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""
    import torch

    def kernel(**arguments: Any) -> Any:
        if arguments["kv_cache"].is_contiguous():
            return function(**arguments)
        backwards = {"q": arguments["q"].view(torch.uint8).flip(2).view(arguments["q"].dtype), "weights": arguments["weights"].flip(1)}
        return function(**{**arguments, **backwards})

    return kernel
