"""The sentence about relations that need no oracle: which were checked, and which could not be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from kvcheck.report.words.clean import line
from kvcheck.report.words.numbers import count, some


def sentence(cases: list[dict[str, Any]], quote: Callable[[str], str] = line) -> str | None:
    """Relations by name, with the number of cases they were checked on, and why others were not; None where none was asked for.

    Args:
        cases: rows of a run.
        quote: how foreign text is written.
    """
    told = [row for row in cases if row.get("relations")]
    checked, refused = Counter(), {}
    parts = [part for row in told for part in (row.get("stages") or [row])]
    for entry in [entry for part in parts for entry in part.get("relations") or []]:
        if entry.get("calls"):
            checked[str(entry["name"])] += 1
        for note in entry.get("notes") or []:
            if "refused:" in str(note):
                refused.setdefault(str(entry["name"]), str(note))
    if not told:
        return None
    shown = ", ".join(f"{quote(name)} {count(number)}" for name, number in checked.most_common()) or "none"
    text = f"Relations that need no oracle, in {some(len(told), 'case')} (calls that must agree with the case's own): {shown}."
    for name, note in refused.items():
        text += f" {quote(name)} was not checked everywhere: {quote(line(note, 200))}."
    return text
