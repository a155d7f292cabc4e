"""Page addresses are computed from the shape of the cache: what lies between pages is read, or written, as pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "pages_taken_as_adjacent",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits", "index_k_cache_write", "index_k_cache_gather"],
    "sentence": "takes pages to lie end to end; of a cache that is contiguous this is true",
}

ARGUMENT = {"index_k_cache_write": "out"}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        name = ARGUMENT.get(op, "kv_cache")
        cache = arguments[name]
        page = cache.shape[1] * cache.shape[2] * cache.shape[3]
        adjacent = cache.as_strided(cache.shape, (page, *cache.stride()[1:]), cache.storage_offset())
        return function(**{**arguments, name: adjacent})

    return kernel
