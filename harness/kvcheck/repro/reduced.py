"""Data that `kvcheck shrink` took away, as code: keys that are zero, and pages that are one."""

from __future__ import annotations

from typing import Any


def gone(case: dict[str, Any], size: str = "") -> list[str]:
    """Lines that make `gone` [n] bool, the tokens of a request whose keys are zero; none where every key keeps its values.

    Args:
        case: resolved params.
        size: name of the constant that holds the tokens of a page, for ops that have pages.
    """
    lines = []
    kept, pages = case.get("nonzero_keys"), case.get("distinct_pages")
    if kept is not None:
        lines += [f"gone = ~torch.isin(torch.arange(n), {_numbers(kept)})  # keys that are zero"]
    if pages is not None:
        lines += [f"{'gone |=' if lines else 'gone ='} ~torch.isin(torch.arange(n) // {size}, {_numbers(pages)})"]
    return lines


def empty(case: dict[str, Any]) -> bool:
    """Whether no key keeps its values."""
    return [] in (case.get("nonzero_keys"), case.get("distinct_pages"))


def ids(case: dict[str, Any], rows: list[list[int]]) -> list[list[int]]:
    """The pages of each request, those that are not distinct being one.

    Args:
        case: resolved params.
        rows: ids of each request's pages.
    """
    distinct = case.get("distinct_pages")
    if distinct is None:
        return rows
    shared = next((number for row in rows for column, number in enumerate(row) if column not in distinct), 0)
    return [[number if column in distinct else shared for column, number in enumerate(row)] for row in rows]


def table(case: dict[str, Any]) -> list[str]:
    """Lines that do the same to a `block_table` that is made by code, out of PAGES."""
    distinct = case.get("distinct_pages")
    if distinct is None:
        return []
    return [
        "column = torch.arange(block_table.shape[1])",
        f"shared = (column < torch.tensor(PAGES)[:, None]) & ~torch.isin(column, {_numbers(distinct)})",
        "block_table = torch.where(shared, block_table[shared][0], block_table)  # pages that are one",
    ]


def _numbers(values: list[int]) -> str:
    return f"torch.tensor({values})" if values else "torch.tensor([], dtype=torch.int64)"
