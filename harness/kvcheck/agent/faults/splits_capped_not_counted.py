"""Every request gets as many splits as the longest may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "splits_capped_not_counted",
    "value": None,
    "base": "torch_eager",
    "ops": ["mla_metadata"],
    "sentence": "gives every request with tokens num_splits splits, those too short for them included",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        function(**arguments)
        live = (arguments["context_lens"] > 0).int()
        arguments["splits_indptr"][1:] = (live * arguments["num_splits"]).cumsum(0)

    return kernel
