"""Rows whose byte offset in the output is V or more are never written: an offset in 32 bits, out of the buffer's range, drops the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.agent import faults

SPEC = {
    "name": "rows_past_offset_dropped",
    "value": "int",
    "base": "torch_eager",
    "ops": ["paged_mqa_logits"],
    "sentence": "drops the stores of rows that begin V bytes or more into the output (V = 2^31: a row offset in 32 bits)",
    "candidates": [2147483648],
}


def plant(function: Callable[..., Any], op: str, value: int) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        out = arguments["out"]
        kept = [row for row, _, _ in faults.rows(arguments) if row * out.stride(0) * out.element_size() >= value]
        before = {row: out[row].clone() for row in kept}
        result = function(**arguments)
        for row, line in before.items():
            out[row] = line
        return result

    return kernel
