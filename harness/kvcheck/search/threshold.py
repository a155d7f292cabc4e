"""Finds where a verdict flips along an ordered integer axis, with few evaluations and no knowledge of kernels.

A grid is judged first: the ends, 2^i, 2^i+1, 3*2^i+1 and every boundary -1, 0, +1. Every bracket where the verdict changes
is then closed to neighbours by bisection. What was not looked into is measured (`widest_gap`), never guessed: an island
wider than that cannot have been missed, a narrower one can.
Source: the yes/no/unknown bisection with both ends verified of rust-lang/cargo-bisect-rustc least_satisfying.rs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvcheck.search import periods
from kvcheck.search.brackets import Evaluations, Flip, next_point

Judge = Callable[[int], str]
JudgeMany = Callable[[list[int]], Sequence[str]]

NEIGHBOURS_FIRST = 3
"""From this many changes of verdict on, flips are likely to sit right beside grid points: those neighbours are tried first."""

STRAY_FLIPS = 2
"""Flips at the low end that may not belong to a period: a kernel can be wrong below 10, and then at every multiple of 64."""


@dataclass(frozen=True)
class Threshold:
    """Where the verdict flips along one axis.

    Attributes:
        axis: name of the axis.
        flips: changes between neighbours, in the order of the axis.
        monotonic: at most one flip.
        period: distance at which flips repeat, checked on points that were not used to guess it; or None.
        widest_gap: the largest number of consecutive points in low..high that have no verdict (not evaluated, or unknown).
            Where every flip is closed these all lie between evaluated neighbours of equal verdict.
        evaluations: points that were judged, each once, the unknown ones included.
        trivial_below: up to here one of the checks could not have failed, as the caller says; or None.
        low, high: the range, both ends included.
        passes, fails: evaluated points with that verdict.
        unknown: evaluated points without a verdict, ascending.
        incomplete: why the search ended before every bracket was closed, or None.
    """

    axis: str
    flips: list[Flip]
    monotonic: bool
    period: int | None
    widest_gap: int
    evaluations: int
    trivial_below: int | None
    low: int
    high: int
    passes: int
    fails: int
    unknown: list[int] = field(default_factory=list)
    incomplete: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """CONTRACT's keys of a threshold but `provider` and `at`, which the caller adds.

        A flip that could not be closed to neighbours has one key more: `gap`, the points between that have no verdict.
        """
        return {
            "axis": self.axis,
            "flips": [flip.to_dict() for flip in self.flips],
            "monotonic": self.monotonic,
            "period": self.period,
            "widest_gap": self.widest_gap,
            "evaluations": self.evaluations,
            "trivial_below": self.trivial_below,
        }

    def details(self) -> dict[str, Any]:
        """Keys that a report needs beside CONTRACT's to say in words what was found: range, counts, and what stayed open."""
        counts = {"pass": self.passes, "fail": self.fails, "unknown": len(self.unknown)}
        return {"range": [self.low, self.high], "counts": counts, "unknown": self.unknown, "incomplete": self.incomplete}


def find_flips(
    judge: Judge | None,
    low: int,
    high: int,
    *,
    axis: str = "context_len",
    boundaries: Iterable[int] = (),
    budget: int | None = None,
    trivial_below: int | None = None,
    judge_many: JudgeMany | None = None,
) -> Threshold:
    """Judges points of low..high until every change of verdict that was met is closed to neighbours.

    Args:
        judge: verdict of one point: "pass", "fail" or "unknown". Called once a point at most.
        low, high: the range, both ends judged.
        axis: name put into the result.
        boundaries: values near which a kernel may change its mind (k, block, tile); each is judged -1, 0, +1.
        budget: most evaluations; reached, the result says so in `incomplete`.
        trivial_below: handed through to the result.
        judge_many: verdicts of several points at once, in order; replaces `judge`. The whole grid is one call, then each
            round of bisection one call with one point a bracket. The result does not depend on which of the two is given.

    Returns:
        threshold: see `Threshold`. One flip in 1..200,000 takes at most 80 evaluations.

    Conventions:
        Unknown points are stepped over. A bracket that they keep open is reported as far as known, with its `gap`.

    Raises:
        ValueError: empty range, a budget under 2, no judge, or a verdict of another name.
    """
    if low > high:
        raise ValueError(f"empty range {low}..{high}")
    if budget is not None and budget < 2:
        raise ValueError(f"a budget of {budget} does not cover both ends")
    if judge_many is None:
        if judge is None:
            raise ValueError("either judge or judge_many is needed")
        judge_many = _one_by_one(judge)
    boundaries = sorted(set(boundaries))
    seen = Evaluations(judge_many, low, high, budget)
    points = grid(low, high, boundaries)
    seen.judge(_most_telling(points, low, high, boundaries, budget))
    if seen.changes() >= NEIGHBOURS_FIRST:
        seen.judge(point for a, b in seen.open_brackets() for point in (a + 1, b - 1))
    _close(seen)
    period = _period(seen, boundaries)
    return _result(seen, axis, period, trivial_below)


def grid(low: int, high: int, boundaries: Iterable[int] = ()) -> list[int]:
    """The points that are judged before any bisection: the ends, 2^i, 2^i+1, 3*2^i+1, boundaries -1, 0, +1; ascending."""
    points = {low, high}
    power = 1
    while power <= high:
        points |= {power, power + 1, 3 * power + 1}
        power *= 2
    for boundary in boundaries:
        points |= {boundary - 1, boundary, boundary + 1}
    return sorted(point for point in points if low <= point <= high)


def grid_boundaries(spec_boundaries: Iterable[int | str], params: dict[str, Any]) -> list[int]:
    """Boundaries as numbers: names such as `topk` and `block_size` are looked up in a case's params.

    Args:
        spec_boundaries: `boundaries` of an op's SPEC for one axis: integers and names of axes.
        params: resolved params. A name whose value is null has no boundary.

    Raises:
        ValueError: a name that the params lack, or a value that is not an integer.
    """
    found = set()
    for boundary in spec_boundaries:
        if isinstance(boundary, str) and boundary not in params:
            raise ValueError(f"boundary {boundary!r} is not an axis of this case; it has {', '.join(sorted(params))}")
        value = params[boundary] if isinstance(boundary, str) else boundary
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"boundary {boundary!r} is {value!r}, expected an integer")
        found.add(value)
    return sorted(found)


def _one_by_one(judge: Judge) -> JudgeMany:
    return lambda points: [judge(point) for point in points]


def _most_telling(points: list[int], low: int, high: int, boundaries: list[int], budget: int | None) -> list[int]:
    """The whole grid where the budget allows; else the ends, then boundaries, then the rest."""
    if budget is None or len(points) <= budget:
        return points
    near = {boundary + step for boundary in boundaries for step in (-1, 0, 1)}
    return sorted(points, key=lambda point: (point not in (low, high), point not in near, point))


def _close(seen: Evaluations) -> None:
    """Bisects all open brackets side by side until none can be closed further."""
    while True:
        candidates = [next_point(a, b, seen.unknown_between(a, b)) for a, b in seen.open_brackets()]
        wanted = [point for point in candidates if point is not None]
        if not wanted or not seen.judge(wanted):
            return


def _period(seen: Evaluations, boundaries: list[int]) -> int | None:
    """The period that the flips suggest, if points not judged so far agree with it; the first flips may stand apart."""
    for start in range(STRAY_FLIPS + 1):
        flips = seen.flips()[start:]
        if any(flip.gap for flip in flips) or (start and len(flips) < 3):
            return None
        guess = periods.guess(flips, boundaries)
        if guess is None:
            continue
        before = set(seen.verdicts)
        period = periods.confirm(seen, flips, guess)
        fresh = sorted(set(seen.verdicts) - before)
        seen.judge(neighbour for point in fresh for neighbour in (point - 1, point + 1) if seen.beside_a_change(point, neighbour))
        _close(seen)
        if period and periods.consistent(seen, seen.flips()[start:], period):
            return period
    return None


def _result(seen: Evaluations, axis: str, period: int | None, trivial_below: int | None) -> Threshold:
    flips = seen.flips()
    verdicts = list(seen.verdicts.values())
    incomplete = None
    if seen.exhausted:
        incomplete = f"the budget of {seen.budget} evaluations was reached"
    elif any(flip.gap for flip in flips):
        incomplete = "points without a verdict keep a flip from being closed to neighbours"
    return Threshold(
        axis=axis,
        flips=flips,
        monotonic=len(flips) <= 1,
        period=period,
        widest_gap=seen.widest_gap(),
        evaluations=len(verdicts),
        trivial_below=trivial_below,
        low=seen.low,
        high=seen.high,
        passes=verdicts.count("pass"),
        fails=verdicts.count("fail"),
        unknown=sorted(point for point, verdict in seen.verdicts.items() if verdict == "unknown"),
        incomplete=incomplete,
    )
