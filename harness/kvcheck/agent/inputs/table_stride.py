"""How the rows of a block table lie in memory: end to end, or as the slice of a wider table that a server keeps."""

from __future__ import annotations

from typing import Any

SPEC = {
    "choices": {
        "width": {"doc": "rows lie end to end"},
        "wider": {"doc": "a view of a table with five more columns, which hold page 0: the row stride is more than the width"},
    }
}

SPARE_COLUMNS = 5


def lay(table: Any, kind: str) -> Any:
    """A block table as the kernels are given it.

    Args:
        table: [batch, width] int32. Contiguous.
        kind: a choice of SPEC.

    Returns:
        table: [batch, width] int32. The same ids.
    """
    import torch

    if kind == "width":
        return table
    whole = torch.zeros(table.shape[0], table.shape[1] + SPARE_COLUMNS, dtype=table.dtype)
    whole[:, : table.shape[1]] = table
    return whole[:, : table.shape[1]]
