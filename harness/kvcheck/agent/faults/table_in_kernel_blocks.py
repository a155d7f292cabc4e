"""The table of kernel blocks is read as if it were one of storage blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "table_in_kernel_blocks",
    "value": None,
    "base": "torch_eager",
    "ops": ["block_table"],
    "sentence": "takes ids of kernel blocks for ids of the cache's storage blocks, with zeros past the entries (vLLM 58858)",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it; sizes that must be refused are refused as before."""

    def kernel(**arguments: Any) -> Any:
        import torch

        manager, size, storage = (arguments[f"{name}_block_size"] for name in ("manager", "kernel", "storage"))
        if manager % size or size == storage or (size % storage and storage % size):
            return function(**arguments)
        table = arguments["block_table"]
        parts = torch.arange(manager // size, dtype=table.dtype, device=table.device)
        table = (table[:, :, None] * len(parts) + parts).flatten(1)
        needed = int(arguments["positions"].max()) // storage + 1
        wide = torch.zeros(len(table), max(needed, table.shape[1]), dtype=table.dtype, device=table.device)
        wide[:, : table.shape[1]] = table
        return function(**{**arguments, "block_table": wide, "manager_block_size": storage, "kernel_block_size": storage})

    return kernel
