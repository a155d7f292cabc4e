"""Whole tiles of 256 columns are stored past the end of a row: into the next row, and past the buffer after the last."""

from __future__ import annotations

from typing import Any, Callable

from kvcheck.agent import faults

SPEC = {
    "name": "stored_past_row",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits"],
    "sentence": "stores whole tiles past the end of a row (a store without a mask on max_model_len)",
}

TILE = 256


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        function(**arguments)
        out = arguments["out"]
        width = out.shape[1]
        flat = out.as_strided((out.numel() + TILE,), (1,), out.storage_offset())
        for row, _, length in faults.rows(arguments):
            flat[row * width + length : row * width + -(-length // TILE) * TILE] = float("-inf")

    return kernel
