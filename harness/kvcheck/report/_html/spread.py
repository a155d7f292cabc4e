"""The `wrong` of a row, read: runs of rows, positions and pages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kvcheck.report.words.clean import line

RUN = re.compile(r"(\d{1,12})(?:-(\d{1,12})(?:/(\d{1,12}))?)?")
MOST = 400
"""Runs that are read of one text: the agent keeps fewer."""


@dataclass(frozen=True)
class Run:
    """Neighbouring elements.

    Attributes:
        first: the first.
        last: the last.
        held: how many of them are meant.
    """

    first: int
    last: int
    held: int

    @property
    def share(self) -> float:
        """The part of the stretch that is meant."""
        return self.held / (self.last - self.first + 1)


@dataclass(frozen=True)
class Line:
    """Rows that are wrong alike.

    Attributes:
        rows: the first and the last of them.
        wrong: their wrong elements.
        inside: what is promised of them; None where that is not known.
    """

    rows: Run
    wrong: list[Run]
    inside: list[Run] | None


@dataclass(frozen=True)
class Pages:
    """Pages of the pool.

    Attributes:
        size: tokens a page.
        pool: pages there are.
        wrong: pages with wrong elements.
        used: pages that the case reads or writes.
    """

    size: int
    pool: int
    wrong: list[Run]
    used: list[Run]


@dataclass(frozen=True)
class Spread:
    """Where the wrong elements of a case lie.

    Attributes:
        across: what a column is.
        down: what a row is; empty where there is one row.
        columns: columns there are.
        lines: wrong rows.
        more: wrong rows that were not kept.
        pages: of the pool, or None.
    """

    across: str
    down: str
    columns: int
    lines: list[Line]
    more: int
    pages: Pages | None

    @property
    def of(self) -> str:
        """What is wrong, in a word or two."""
        return f"{self.down}s and {self.across}s" if self.down else f"{self.across}s"


def read(found: Any) -> Spread | None:
    """A row's `wrong`; None where there is none, or where it is not as the agent writes it."""
    try:
        down, across = (line(name, 40) for name in found["axes"])
        lines = [
            Line(runs(each["rows"])[0], runs(each["wrong"]), runs(each["inside"]) if "inside" in each else None)
            for each in found["rows"][:MOST]
        ]
        return Spread(across, down, int(found["shape"][1]), lines, int(found.get("more_rows") or 0), _pages(found)) if lines else None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None


def runs(text: str) -> list[Run]:
    """Runs from their text.

    Raises:
        ValueError: it is none.
    """
    found = []
    for word in text.split()[:MOST]:
        match = RUN.fullmatch(word)
        if not match:
            raise ValueError(word)
        first, last = int(match[1]), int(match[2] or match[1])
        found.append(Run(first, last, int(match[3] or last - first + 1)))
        if last < first or not 1 <= found[-1].held <= last - first + 1:
            raise ValueError(word)
    return found


def told(found: list[Run], most: int = 5) -> str:
    """Runs in words: `3, 8 to 15 and 64 to 127 (20 of them)`."""
    if not found:
        return "none"
    words = []
    for run in found[:most]:
        text = str(run.first) if run.first == run.last else f"{run.first} to {run.last}"
        words.append(text + (f" ({run.held} of them)" if run.share < 1 else ""))
    left = sum(run.held for run in found[most:])
    return ", ".join(words) + (f" and {left} more" if left else "")


def _pages(found: dict[str, Any]) -> Pages | None:
    if "blocks" not in found:
        return None
    wrong, used = runs(found["blocks"]), runs(found["used"])
    last = max((run.last for run in [*wrong, *used]), default=0)
    return Pages(int(found["block_size"]), max(int(found.get("pool") or 0), last + 1), wrong, used)
