"""The end of a row's window is taken as its last column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "window_end_inclusive",
    "value": None,
    "base": "torch_eager",
    "ops": ["mqa_logits"],
    "sentence": "scores the column at ke as well: a token of the future, or of the next request",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        return function(**{**arguments, "ke": arguments["ke"] + 1})

    return kernel
