"""Pages are read, or written, in the other layout: scales are right, keys are made of other tokens' bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.agent.layouts import shuffled

SPEC = {
    "name": "layout_mistaken",
    "value": None,
    "base": "torch_eager",
    "ops": ["index_k_cache_gather", "index_k_cache_write"],
    "sentence": "takes flat pages for shuffled ones, or the reverse; pages that do not divide into tiles of 16 by 16 are left alone",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        cache = arguments["kv_cache" if "kv_cache" in arguments else "out"]
        if not shuffled.fits(cache.shape[1], cache.shape[3] - 4):
            return function(**arguments)
        other = {"block_flat": "shuffled", "shuffled": "block_flat"}[arguments["layout"]]
        return function(**{**arguments, "layout": other})

    return kernel
