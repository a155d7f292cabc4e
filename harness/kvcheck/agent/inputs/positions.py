"""Top-k positions as a converter to slots meets them: whole rows, short ones, -1 anywhere, and what no table covers."""

from __future__ import annotations

from typing import Any

SPEC = {
    "choices": {
        "full": {"doc": "every column a position of the row's request, in random order"},
        "prefix": {"doc": "as many positions as the row has, then -1"},
        "holes": {"doc": "-1 in random columns, the last ones too: a compacting converter moves what follows"},
        "past_table": {"doc": "a third of the columns at and past the last position that the table covers: -1 is due there"},
        "past_context": {"doc": "a third of the columns past the context but inside the table: mapped through whatever the table holds"},
        "empty": {"doc": "every column -1"},
    }
}


def build(kind: str, rows: int, topk: int, lengths: list[int], covered: int, generator: Any) -> tuple[Any, Any]:
    """Positions of every row, and whose they are.

    Args:
        kind: a choice of SPEC.
        rows: query rows.
        topk: columns.
        lengths: tokens of each request.
        covered: positions that a row of the table covers: width * block_size.
        generator: an `inputs.random.Generator`.

    Returns:
        topk_positions: [rows, topk] int32. Positions, or -1.
        request_ids: [rows] int32. In no order.
    """
    import torch

    owner = generator.integers("requests", rows, 0, len(lengths))
    length = torch.tensor(lengths)[owner][:, None]
    draw = generator.bits("positions", rows * topk).view(rows, topk) >> 1 & 0x7FFFFFFFFFFFFF
    position = torch.where(length > 0, draw % length.clamp(min=1), -1)
    column = torch.arange(topk)
    third = generator.integers("columns", rows * topk, 0, 3).view(rows, topk) == 0
    if kind == "empty":
        position = torch.full_like(position, -1)
    elif kind == "prefix":
        position = torch.where(column < length, position, -1)
    elif kind == "holes":
        position = torch.where(third | (column == topk - 1), -1, position)
    elif kind == "past_table":
        far = torch.where(column % 2 == 0, covered + draw % (covered + 1), covered)
        position = torch.where(third, torch.where(column % 4 == 3, 2**31 - 1, far), position)
    elif kind == "past_context":
        position = torch.where(third & (length < covered), length + draw % (covered - length).clamp(min=1), position)
    return position.to(torch.int32), owner.to(torch.int32)
