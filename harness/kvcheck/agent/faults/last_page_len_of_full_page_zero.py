"""A full last page is said to hold no token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "last_page_len_of_full_page_zero",
    "value": None,
    "base": "torch_eager",
    "ops": ["mla_metadata"],
    "sentence": "says that a full last page holds 0 tokens (context_len mod page_size)",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        function(**arguments)
        arguments["last_page_len"].copy_(arguments["context_lens"] % arguments["page_size"])

    return kernel
