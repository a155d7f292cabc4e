"""Which rows to show where not all fit."""

from __future__ import annotations

import math
from typing import Any

from kvcheck.report.words import known, rows

Row = dict[str, Any]


def most_telling(cases: list[Row], limit: int) -> list[Row]:
    """Failures, each kind in turn; the passes that came closest to failing, a quarter at least; a few that were not judged.

    Returns:
        chosen: at most `limit` rows, in the order of the run.
    """
    kinds: dict[tuple[str, ...], list[int]] = {}
    refused: dict[tuple[str, ...], list[int]] = {}
    passing: dict[str, list[int]] = {}
    for index, row in enumerate(cases):
        if rows.is_failure(row) or known.state(row) == "passes":
            kinds.setdefault(rows.identity(row), []).append(index)
        elif not rows.is_judged(row):
            refused.setdefault(rows.identity(row), [index])
    plain = [index for index, row in enumerate(cases) if rows.verdict(row) == "pass" and known.state(row) != "passes"]
    passes = sorted(plain, key=lambda index: -_closeness(cases[index]))
    for index in passes:
        passing.setdefault(str(cases[index].get("provider")), []).append(index)
    kept = min(limit // 4, len(passes))
    chosen = in_turn(list(kinds.values()), limit - kept)
    chosen += in_turn(list(refused.values()), min(limit // 4, limit - kept - len(chosen)))
    chosen += in_turn(list(passing.values()), limit - len(chosen))
    return [cases[index] for index in sorted(chosen)]


def around(cases: list[Row], threshold: dict[str, Any], limit: int = 8) -> list[Row]:
    """The rows of a threshold's provider and `at` nearest to its first flip, half of them on either side where there are enough.

    Returns:
        chosen: ascending along the axis; empty when there is no flip.
    """
    if not threshold.get("flips"):
        return []
    axis, flip = threshold["axis"], threshold["flips"][0]
    middle = (flip["last_pass"] + flip["first_fail"]) / 2
    mine: dict[int, Row] = {}
    for row in cases:
        params = row.get("params") or {}
        value = params.get(axis)
        if row.get("provider") != threshold.get("provider") or isinstance(value, bool) or not isinstance(value, int):
            continue
        if all(params.get(name, wanted) == wanted for name, wanted in (threshold.get("at") or {}).items()):
            mine.setdefault(value, row)
    below = sorted((value for value in mine if value < middle), reverse=True)
    above = sorted(value for value in mine if value > middle)
    low = min(len(below), max(limit // 2, limit - len(above)))
    return [mine[value] for value in sorted([*below[:low], *above[: limit - low]])]


def failures(cases: list[Row], limit: int) -> tuple[list[Row], int]:
    """One failing row of each kind, those that are not known first, and how many failing rows are like those or of kinds left out."""
    firsts: dict[tuple[str, ...], Row] = {}
    failing = sorted((row for row in cases if rows.is_failure(row)), key=lambda row: known.state(row) == "known")
    for row in failing:
        firsts.setdefault(rows.identity(row), row)
    chosen = list(firsts.values())[:limit]
    return chosen, len(failing) - len(chosen)


def first(run: dict[str, Any]) -> Row | None:
    """The failing case that a report shows in full: the failing side of the first flip, else the first failure that is not known."""
    for threshold in run.get("thresholds") or []:
        for flip in threshold.get("flips") or []:
            for row in around(run["cases"], {**threshold, "flips": [flip]}, 2):
                if rows.is_failure(row):
                    return row
    return next(iter(failures(run["cases"], 1)[0]), None)


def in_turn(groups: list[list[int]], limit: int) -> list[int]:
    """The first of each group, then the second of each, up to a limit."""
    found: list[int] = []
    for turn in range(max((len(group) for group in groups), default=0)):
        found += [group[turn] for group in groups if turn < len(group)]
        if len(found) >= limit:
            break
    return found[: max(limit, 0)]


def _closeness(row: Row) -> float:
    value = (row.get("metrics") or {}).get("max_bound_ratio")
    return value if isinstance(value, (int, float)) and math.isfinite(value) else -1.0
