"""A padding row in the batch shifts a boundary: the last token of every other row is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.agent import faults

SPEC = {
    "name": "last_token_lost_beside_padding",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits"],
    "relation": "padded_batch",
    "sentence": "scores the last token of a row 0 when a padding row is in the batch",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        function(**arguments)
        if bool((arguments["context_lens"] == 0).any()):
            for row, _, length in faults.rows(arguments):
                arguments["out"][row, max(length - 1, 0) : length] = 0

    return kernel
