"""Block ids are listed where the kernel wants pages of another size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "block_ids_for_pages",
    "value": None,
    "base": "torch_eager",
    "ops": ["mla_metadata"],
    "sentence": "lists ids of the table's blocks where the kernel counts smaller pages",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        import torch

        function(**arguments)
        table, size, block_size = arguments["block_table"], arguments["page_size"], arguments["block_size"]
        pages = ((arguments["context_lens"] + size - 1) // size).tolist()
        lists = [row[torch.arange(count, device=row.device) * size // block_size] for row, count in zip(table, pages, strict=True)]
        arguments["kv_indices"].copy_(torch.cat(lists))

    return kernel
