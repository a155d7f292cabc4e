"""What is said of the cause of a failure: the planted fault that leaves the same output, or what is known where none does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from kvcheck.report.words.clean import line
from kvcheck.report.words.numbers import count, listed, some

NAMED = 3
"""Faults that a sentence names."""


def explained(row: dict[str, Any]) -> str | None:
    """One line on what explains a failing case; None where nobody looked.

    Args:
        row: a row of run.json's `cases`; text in it is taken as hostile.
    """
    entries = _entries(row)
    if not entries:
        return None
    first = entries[0]
    if first.get("fault") is None:
        return line(first.get("sentence"), 1000)
    names = [name for entry in entries if (name := entry.get("fault")) is not None and entry.get("explains") == first.get("explains")]
    said = line(f"fault:{first['fault']}: {_share(first)}: {line(first.get('sentence'), 400)}", 500)
    if _whole(first):
        others = listed([line(name, 60) for name in names[1:]], NAMED)
        return f"explained by {said}" + (f" (as well: {others})" if others else "")
    left = next((line(entry.get("sentence"), 600) for entry in entries if entry.get("fault") is None), "")
    return f"nearest is {said}" + (f"; {left}" if left else "")


def closing(cases: list[dict[str, Any]], quote: Callable[[str], str]) -> str | None:
    """Which fault explains how many failing cases; None where none was diagnosed.

    Args:
        cases: failing rows.
        quote: how foreign text is written.
    """
    looked = [entries for row in cases if (entries := _entries(row)) and entries[0].get("explains") is not None]
    if not looked:
        return None
    firsts: Counter[str] = Counter(line(entries[0].get("fault"), 80).partition("=")[0] for entries in looked if _whole(entries[0]))
    sentences = {line(entries[0].get("fault"), 80).partition("=")[0]: _short(entries[0]) for entries in reversed(looked)}
    parts = [f"{quote('fault:' + name)} explains {count(n)} ({quote(sentences[name])})" for name, n in firsts.most_common(NAMED)]
    if len(firsts) > NAMED:
        parts.append(f"{some(len(firsts) - NAMED, 'other fault')} the next {count(sum(n for _, n in firsts.most_common()[NAMED:]))}")
    left = len(looked) - sum(firsts.values())
    if left:
        parts.append(f"{count(left)} {'is' if left == 1 else 'are'} explained by no fault that is known")
    return f"Of {some(len(looked), 'failing case')} that {'was' if len(looked) == 1 else 'were'} diagnosed, {'; '.join(parts)}."


def _entries(row: dict[str, Any]) -> list[dict[str, Any]]:
    found = row.get("diagnosis")
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def _whole(entry: dict[str, Any]) -> bool:
    return entry.get("fault") is not None and entry.get("explains") == 1


def _short(entry: dict[str, Any]) -> str:
    """What the fault says of itself, up to where it begins to explain."""
    return line(entry.get("sentence"), 300).partition("; ")[0]


def _share(entry: dict[str, Any]) -> str:
    share, elements = entry.get("explains"), entry.get("elements")
    percent = f"{100 * share:.4g}" if isinstance(share, (int, float)) else "?"
    if percent == "100" and share != 1:
        percent = "almost 100"
    return f"explains {percent} % of {count(elements) if isinstance(elements, int) else '?'} elements"
