"""Rows of the block table are found by its width instead of its row stride."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "table_rows_taken_as_adjacent",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits", "index_k_cache_gather", "topk_slots"],
    "sentence": "takes the rows of the block table to lie end to end; of a table that is no view this is true",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        table = arguments["block_table"]
        adjacent = table.as_strided(table.shape, (table.shape[1], 1), table.storage_offset())
        return function(**{**arguments, "block_table": adjacent})

    return kernel
