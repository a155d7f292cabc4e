"""Every window is taken to begin at the first column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "window_start_ignored",
    "value": None,
    "base": "torch_eager",
    "ops": ["mqa_logits"],
    "sentence": "scores the columns before ks as well: the tokens of other requests; of windows that begin at 0 this is right",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        return function(**{**arguments, "ks": arguments["ks"] * 0})

    return kernel
