"""Where the context is not split, no merge follows that would turn the base of lse from 2 to e."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "lse_base_2_unsplit",
    "value": None,
    "base": "torch_eager",
    "ops": ["mla_decode"],
    "relation": "split_count",
    "sentence": "leaves lse in base 2 where the context is one part",
}

LOG2_E = 1.4426950408889634


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        function(**arguments)
        if arguments["num_splits"] == 1:
            arguments["lse"].mul_(LOG2_E)

    return kernel
