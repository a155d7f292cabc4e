"""The rotated dims are left out of the score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "rope_dropped",
    "value": None,
    "base": "torch_eager",
    "ops": ["mla_decode"],
    "sentence": "leaves the rotated dims (head_dim_v and above) out of the score",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        q = arguments["q"].clone()
        q[..., arguments["head_dim_v"] :] = 0
        function(**{**arguments, "q": q})

    return kernel
