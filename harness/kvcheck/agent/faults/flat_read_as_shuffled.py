"""The cache is written flat and read in the shuffled layout: scales are right, keys are made of other tokens' bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.agent.layouts import shuffled

SPEC = {
    "name": "flat_read_as_shuffled",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits"],
    "sentence": "reads a block-flat cache in tiles of 16 tokens by 16 bytes; where blocks or heads are no multiples of 16 nothing changes",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        cache = arguments["kv_cache"]
        if not shuffled.fits(cache.shape[1], cache.shape[3] - 4):
            return function(**arguments)
        return function(**{**arguments, "kv_cache": shuffled.read(cache)})

    return kernel
