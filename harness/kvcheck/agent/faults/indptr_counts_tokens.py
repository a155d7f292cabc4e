"""kv_indptr counts tokens instead of pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "indptr_counts_tokens",
    "value": None,
    "base": "torch_eager",
    "ops": ["mla_metadata"],
    "sentence": "counts tokens in kv_indptr, where a kernel counts pages",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        function(**arguments)
        arguments["kv_indptr"][1:] = arguments["context_lens"].cumsum(0)

    return kernel
