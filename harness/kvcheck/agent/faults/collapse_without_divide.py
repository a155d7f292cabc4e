"""Kernel blocks that make up a storage block are collapsed by taking every f-th column, but the ids are not divided by f."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "collapse_without_divide",
    "value": None,
    "base": "torch_eager",
    "ops": ["block_table"],
    "sentence": "collapses f kernel blocks into a storage block by their columns, and leaves the ids in kernel blocks",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it; right wherever nothing is collapsed."""

    def kernel(**arguments: Any) -> Any:
        import torch

        manager, size, storage = (arguments[f"{name}_block_size"] for name in ("manager", "kernel", "storage"))
        if manager % storage or storage % size or storage == size:
            return function(**arguments)
        table = arguments["block_table"]
        parts = torch.arange(0, manager // size, storage // size, dtype=table.dtype, device=table.device)
        table = (table[:, :, None] * (manager // size) + parts).flatten(1)
        return function(**{**arguments, "block_table": table, "manager_block_size": storage, "kernel_block_size": storage})

    return kernel
