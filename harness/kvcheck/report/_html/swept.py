"""What is drawn against a swept axis: the rows of a search for a flip, or those of the sweep along its longest axis."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from kvcheck.report._html.markup import kind
from kvcheck.report.words import rows
from kvcheck.report.words.clean import line

Row = dict[str, Any]

MOST = 4
"""Series that are drawn."""


@dataclass(frozen=True)
class Point:
    """One judged case along an axis.

    Attributes:
        at: value of the axis.
        kind: what its verdict amounts to.
        verdict: the verdict.
        match: set match of the top-k, None where it was not measured or could not have failed.
        chance: what a random selection would match; None as `match`.
        ratio: the worst difference over its bound, or None.
    """

    at: int
    kind: str
    verdict: str
    match: float | None
    chance: float | None
    ratio: float | None


@dataclass(frozen=True)
class Series:
    """Points of one provider.

    Attributes:
        provider: its name.
        axis: the axis along which they lie.
        at: what the other axes are; empty where they vary.
        points: ascending.
        threshold: the entry of run.json's `thresholds`, or None.
        flips: pairs of neighbours, ascending, between which the verdict changes.
        trivial_below: up to here top-k could not have failed, or None.
    """

    provider: str
    axis: str
    at: dict[str, Any]
    points: list[Point]
    threshold: dict[str, Any] | None = None
    flips: list[tuple[int, int]] = field(default_factory=list)
    trivial_below: int | None = None


def series(run: dict[str, Any]) -> tuple[list[Series], int]:
    """What is worth a chart, those with a flip first, and how many are left out.

    Args:
        run: run.json.
    """
    found = [_searched(run["cases"], threshold) for threshold in run.get("thresholds") or []] or _sweeps(run["cases"])
    found = [each for each in found if any(point.kind != "unjudged" for point in each.points)]
    found.sort(key=lambda each: (not each.flips, all(point.kind in ("pass", "unjudged") for point in each.points)))
    return found[:MOST], max(len(found) - MOST, 0)


def _searched(cases: list[Row], threshold: dict[str, Any]) -> Series:
    axis, provider, at = threshold["axis"], str(threshold.get("provider")), threshold.get("at") or {}
    mine = [
        row
        for row in cases
        if str(row.get("provider")) == provider and all((row.get("params") or {}).get(name, value) == value for name, value in at.items())
    ]
    flips = sorted(tuple(sorted((flip["last_pass"], flip["first_fail"]))) for flip in threshold.get("flips") or [])
    return Series(line(provider, 120), axis, at, _points(mine, axis), threshold, flips, threshold.get("trivial_below"))


def _sweeps(cases: list[Row]) -> list[Series]:
    """A series for each provider along the axis of numbers that has most values, where it has three or more."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in cases:
        groups.setdefault((str(row.get("op")), str(row.get("provider"))), []).append(row)
    found = []
    for (_, provider), mine in groups.items():
        values: dict[str, set[int]] = {}
        for row in mine:
            for name, value in (row.get("params") or {}).items():
                if isinstance(value, int) and not isinstance(value, bool) and name != "seed":
                    values.setdefault(name, set()).add(value)
        axis = max(values, key=lambda name: (len(values[name]), name == "context_len"), default=None)
        if axis and len(values[axis]) > 2 and (points := _points(mine, axis)):
            found.append(Series(line(provider, 120), axis, {}, points))
    return found


def _points(cases: list[Row], axis: str) -> list[Point]:
    points = []
    for row in cases:
        at = (row.get("params") or {}).get(axis)
        if isinstance(at, bool) or not isinstance(at, int):
            continue
        of = kind(rows.verdict(row))
        points.append(
            Point(at, of, rows.verdict(row), *(_metric(row, name) for name in ("topk_set_match", "topk_set_match_chance")), _ratio(row))
        )
    return sorted(points, key=lambda point: point.at)


def _ratio(row: Row) -> float | None:
    return _metric(row, "max_bound_ratio")


def _metric(row: Row, name: str) -> float | None:
    value = (row.get("metrics") or {}).get(name)
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable and not rows.trivial(row, name) else None
