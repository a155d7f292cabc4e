"""A request without tokens gets a split of its own, which nothing fills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "split_of_empty_request",
    "value": None,
    "base": "torch_eager",
    "ops": ["mla_metadata"],
    "sentence": "gives a request without tokens a split of its own, which no kernel fills before it is reduced",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        function(**arguments)
        splits = arguments["splits_indptr"]
        splits[1:] = splits.diff().clamp(min=1).cumsum(0)

    return kernel
