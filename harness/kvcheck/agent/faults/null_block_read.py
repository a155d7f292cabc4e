"""The last entry of every request is not in the table yet: its tokens read 0, the null block that all requests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "null_block_read",
    "value": None,
    "base": "torch_eager",
    "ops": ["block_table"],
    "sentence": "reads the null block for the tokens of each request's last block (a table one entry short)",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        table = arguments["block_table"].clone()
        requests, positions = arguments["request_ids"], arguments["positions"]
        for request in requests[requests >= 0].unique().tolist():
            table[request, int(positions[requests == request].max()) // arguments["manager_block_size"]] = 0
        return function(**{**arguments, "block_table": table})

    return kernel
