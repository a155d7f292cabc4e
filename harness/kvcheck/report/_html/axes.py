"""Which axes a run varies, and their values in an order that a reader expects."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from kvcheck.report.words import rows
from kvcheck.report.words.clean import line
from kvcheck.report.words.numbers import number

Row = dict[str, Any]

NO_AXIS = frozenset({"seed", "num_blocks"})


def value(row: Row, axis: str) -> str | None:
    """A row's value of an axis as text; `provider` and `case file` are axes too."""
    if axis == "provider":
        return _cleaned(str(row.get("provider")))
    if axis == "case file":
        return _cleaned(str(row.get("case_file")))
    params = row.get("params") or {}
    if axis not in params or params[axis] is None:
        return None
    held = params[axis]
    return _cleaned(held if isinstance(held, str) else str(held) if isinstance(held, (list, dict)) else number(held))


@lru_cache(maxsize=4096)
def _cleaned(text: str) -> str:
    return line(text, 80)


def varied(cases: list[Row]) -> list[str]:
    """Axes with more than one value, those that are swept by name first.

    Args:
        cases: rows of one op.
    """
    swept: dict[str, None] = {}
    seen: dict[str, set[Any]] = {}
    for row in cases:
        swept.update(dict.fromkeys(rows.axes(row)[1]))
        for axis, held in (row.get("params") or {}).items():
            if held is not None:
                seen.setdefault(axis, set()).add(str(held) if isinstance(held, (list, dict)) else held)
    found = [axis for axis in swept if len(seen.get(axis, ())) > 1]
    found += [axis for axis in seen if axis not in found and axis not in NO_AXIS and len(seen[axis]) > 1]
    return [axis for axis in found if axis == line(axis, 40)]


def ordered(values: set[str]) -> list[str]:
    """Numbers ascending, then words by name."""
    return sorted(values, key=lambda text: (0, float(text), "") if is_number(text) else (1, 0.0, text))


def is_number(text: str) -> bool:
    """Whether a value is a finite number."""
    try:
        return abs(float(text)) < float("inf")
    except ValueError:
        return False
