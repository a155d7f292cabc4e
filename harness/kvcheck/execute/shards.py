"""One of N equal parts of a run, for N machines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from kvcheck.execute.errors import UsageError

T = TypeVar("T")


def parse_shard(text: str) -> tuple[int, int]:
    """Reads I/N, I from 1 to N.

    Raises:
        UsageError: it is something else.
    """
    found = re.fullmatch(r"(\d+)/(\d+)", text.strip())
    index, count = (int(part) for part in found.groups()) if found else (0, 0)
    if not 1 <= index <= count:
        raise UsageError(f"--shard: expected I/N with I from 1 to N, such as 1/4, got {text!r}")
    return index, count


def shard(items: Sequence[T], index: int, count: int) -> list[T]:
    """Part `index` of `count`: every count-th item, so that parts take about as long as each other; together they are all, once."""
    return list(items[index - 1 :: count])
