"""Slots of top-k positions, through the block table."""

from __future__ import annotations

from typing import Any

from kvcheck.repro import parts, tables
from kvcheck.repro.parts import NoScript, Output, Parts


def build(case: dict[str, Any], precision: str | None, seed: int) -> Parts:
    """The sections of a case.

    Args:
        case: resolved params.
        precision: not used: slots are exact.
        seed: of the inputs.

    Raises:
        NoScript: something of the case has no short form.
    """
    size, stride = case["block_size"], case["block_stride"] or case["block_size"]
    count = [-(-n // size) for n in parts.longest(case)]
    pool = tables.pool_size(case["block_table"], count)
    shift = (2**31 - size) // stride - pool if case["pool"] == "last" else 0
    return Parts(
        constants=[
            f"ROWS, TOPK, BATCH, BLOCK_SIZE, BLOCK_STRIDE, NUM_BLOCKS = {case['rows']}, {case['topk']}, {case['batch']}, {size}, {stride}, "
            f"{pool}",
            *parts.context(case)[0],
        ],
        inputs=[
            *tables.build(case, count, pool, seed, "BLOCK_SIZE", shift),
            'request_ids = integers("requests", ROWS, 0, BATCH)',
            "length, covered = torch.tensor(CONTEXT)[request_ids][:, None], block_table.shape[1] * BLOCK_SIZE",
            'draw = bits("positions", ROWS * TOPK).view(ROWS, TOPK) >> 1 & 0x7FFFFFFFFFFFFF',
            "position = torch.where(length > 0, draw % length.clamp(min=1), -1)",
            *_positions(case["positions"]),
            "topk_positions, request_ids = position.int(), request_ids.int()",
            *tables.lay(case["table_stride"]),
        ],
        expected=[
            "page = topk_positions.long() // BLOCK_SIZE",
            "known = (topk_positions >= 0) & (page < block_table.shape[1])",
            "block = block_table[request_ids.long()].long().gather(1, torch.where(known, page, 0))",
            "want = torch.where(known, block * BLOCK_STRIDE + topk_positions % BLOCK_SIZE, -1)",
        ],
        arguments=("topk_positions", "block_table", "request_ids"),
        keywords={"block_size": "BLOCK_SIZE", "block_stride": "BLOCK_STRIDE"},
        outputs=(Output("slots", "(ROWS, TOPK)", "int32"),),
        check=[
            'show("slots", slots != want, want, slots, lambda row, column:',
            '     f" of request {request_ids[row]}, position {topk_positions[row, column]}")',
        ],
    )


def _positions(kind: str) -> list[str]:
    """Lines that change `position` [ROWS, TOPK]."""
    third = 'third = integers("columns", ROWS * TOPK, 0, 3).view(ROWS, TOPK) == 0'
    column = "column = torch.arange(TOPK)"
    lines = {
        "full": [],
        "empty": ["position = torch.full((ROWS, TOPK), -1)"],
        "prefix": ["position = torch.where(torch.arange(TOPK) < length, position, -1)"],
        "holes": [third, "position = torch.where(third | (torch.arange(TOPK) == TOPK - 1), -1, position)"],
        "past_table": [
            third,
            column,
            "far = torch.where(column % 2 == 0, covered + draw % (covered + 1), covered)",
            "position = torch.where(third, torch.where(column % 4 == 3, 2**31 - 1, far), position)",
        ],
        "past_context": [
            third,
            "past = length + draw % (covered - length).clamp(min=1)",
            "position = torch.where(third & (length < covered), past, position)",
        ],
    }.get(kind)
    if lines is None:
        raise NoScript(f"positions {kind} have no short form")
    return lines
