"""Every token of a group writes the group's state, not only the one that completes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "unfinished_state_written",
    "value": None,
    "base": "torch_eager",
    "ops": ["block_table"],
    "sentence": "gives a write slot to tokens that do not complete their state's group",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it; right for reads, and at one token a state."""
    return lambda **arguments: function(**{**arguments, "mapping": "read"})
