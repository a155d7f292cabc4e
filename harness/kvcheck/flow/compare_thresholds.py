"""Where flips moved between two runs, and whether something fails now that passed."""

from __future__ import annotations

import json
from typing import Any

Stretch = tuple[int, int]


def moved(a: list[dict[str, Any]], b: list[dict[str, Any]], across: bool = False) -> list[dict[str, Any]]:
    """Thresholds of both runs whose flips differ.

    Args:
        a, b: `thresholds` of run.json, before and after.
        across: whether they are of two providers.

    Returns:
        entries: {provider, axis, at, before, after, worse}; before and after are whole thresholds, worse where a stretch fails that
            passed before.
    """
    before = {_key(entry, across): entry for entry in a}
    found = []
    for after in b:
        was = before.get(_key(after, across))
        if was and (was["flips"] != after["flips"] or _failing(was) != _failing(after)):
            found.append(
                {
                    "provider": after.get("provider"),
                    "axis": after["axis"],
                    "at": after.get("at") or {},
                    "before": was,
                    "after": after,
                    "worse": _worse(was, after),
                }
            )
    return found


def _key(entry: dict[str, Any], across: bool) -> str:
    return json.dumps([entry.get("case"), entry["axis"], entry.get("at"), None if across else entry.get("provider")], sort_keys=True)


def _failing(entry: dict[str, Any]) -> list[Stretch]:
    """Stretches of the axis that fail, as far as the flips tell; both ends included."""
    low, high = entry.get("range") or [0, 1 << 62]
    flips = entry["flips"]
    if not flips:
        return [(low, high)] if (entry.get("counts") or {}).get("fail") else []
    found, start = [], low if flips[0]["direction"] == "fail_to_pass" else None
    for flip in flips:
        if flip["direction"] == "pass_to_fail":
            start = flip["first_fail"]
        elif start is not None:
            found.append((start, flip["first_fail"]))
            start = None
    return found if start is None else [*found, (start, high)]


def _worse(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Whether something fails now inside what was looked at and passed before."""
    low, high = before.get("range") or [0, 1 << 62]
    known = _failing(before)
    for start, end in _failing(after):
        start, end = max(start, low), min(end, high)
        if start > end:
            continue
        point = start  # walks over the stretches that failed before; what they leave uncovered is new
        for first, last in known:
            if first <= point <= last:
                point = last + 1
        if point <= end:
            return True
    return False
