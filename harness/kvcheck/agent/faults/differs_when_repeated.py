"""Every call rounds differently, as sums by atomics do: each result is within the bound, no two are the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "differs_when_repeated",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits"],
    "relation": "repeat",
    "sentence": "gives other bits at every call, as sums by atomics in any order do",
}

PERIOD = 17


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""
    calls = itertools.count()

    def kernel(**arguments: Any) -> Any:
        function(**arguments)
        arguments["out"].mul_(1 + next(calls) % PERIOD * 2.0**-23)

    return kernel
