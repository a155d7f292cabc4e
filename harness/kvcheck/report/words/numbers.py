"""Numbers as a reader wants them; non-finite ones are the strings of run.json."""

from __future__ import annotations

import re
from typing import Any

from kvcheck.report.words.clean import line


def number(value: Any, digits: int = 7) -> str:
    """A number with so many significant digits, `3.1e4` and not `3.1e+04`; a dash for none."""
    if value is None:
        return "-"
    if isinstance(value, (bool, int)):
        return str(value)
    if not isinstance(value, float):
        return line(value, 80)
    return re.sub(r"e([+-])0*(\d)", lambda m: f"e{'-' if m[1] == '-' else ''}{m[2]}", f"{value:.{digits}g}")


def share(value: Any) -> str:
    """A fraction of one with four places, more where it would otherwise read as 1."""
    if not isinstance(value, (int, float)):
        return number(value)
    return f"{value:.4f}" if value == 1 or f"{value:.4f}" != "1.0000" else f"{value:.9f}"


def count(value: int) -> str:
    """An integer with thousands separated."""
    return f"{value:,}"


def some(quantity: int, noun: str, plural: str | None = None) -> str:
    """`1 case`, `2 cases`."""
    return f"{count(quantity)} {noun if quantity == 1 else plural or noun + 's'}"


def listed(items: list[str], most: int = 6) -> str:
    """`a`, `a and b`, `a, b and c`; past the limit `a, b and 5 more`."""
    if len(items) > most:
        items = [*items[:most], f"{len(items) - most} more"]
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1] if items else ""
