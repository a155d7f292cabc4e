"""What a threshold search has judged so far, and where it looks next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

VERDICTS = ("pass", "fail", "unknown")

UNKNOWN_LIMIT = 48
"""Unknown points met inside one bracket before it is left open: twice the bisections of 2^17 points, and some to search within."""


@dataclass(frozen=True)
class Flip:
    """One change of verdict.

    Attributes:
        last_pass: the passing neighbour, whatever the direction.
        first_fail: the failing one.
        gap: points between the two that have no verdict; 0 when they are neighbours.
    """

    last_pass: int
    first_fail: int
    gap: int = 0

    @property
    def direction(self) -> str:
        """`pass_to_fail` or `fail_to_pass`, as the axis ascends."""
        return "pass_to_fail" if self.last_pass < self.first_fail else "fail_to_pass"

    def to_dict(self) -> dict[str, Any]:
        """CONTRACT's keys, and `gap` where the flip is not closed to neighbours."""
        entry: dict[str, Any] = {"last_pass": self.last_pass, "first_fail": self.first_fail, "direction": self.direction}
        return {**entry, "gap": self.gap} if self.gap else entry


class Evaluations:
    """Memoised verdicts of points of low..high.

    Attributes:
        verdicts: verdict by point, in the order of judging.
        exhausted: the budget kept a point from being judged.
    """

    def __init__(self, judge_many: Callable[[list[int]], Sequence[str]], low: int, high: int, budget: int | None) -> None:
        self.low, self.high, self.budget = low, high, budget
        self.verdicts: dict[int, str] = {}
        self.exhausted = False
        self._judge_many = judge_many

    def judge(self, points: Iterable[int]) -> int:
        """Judges those points of the range that were not judged yet, in one batch; returns how many that were.

        Raises:
            ValueError: the judge answered something that is no verdict, or not one answer a point.
        """
        wanted = [point for point in dict.fromkeys(points) if self.low <= point <= self.high and point not in self.verdicts]
        if self.budget is not None and len(wanted) > self.budget - len(self.verdicts):
            wanted = wanted[: self.budget - len(self.verdicts)]
            self.exhausted = True
        if not wanted:
            return 0
        answers = list(self._judge_many(wanted))
        if len(answers) != len(wanted):
            raise ValueError(f"{len(answers)} verdicts for {len(wanted)} points")
        for point, verdict in zip(wanted, answers, strict=True):
            if verdict not in VERDICTS:
                raise ValueError(f"verdict of {point} is {verdict!r}, expected one of {', '.join(VERDICTS)}")
            self.verdicts[point] = verdict
        return len(wanted)

    def known(self) -> list[int]:
        """Points that passed or failed, ascending."""
        return sorted(point for point, verdict in self.verdicts.items() if verdict != "unknown")

    def brackets(self) -> list[tuple[int, int]]:
        """Neighbouring known points of different verdict, ascending."""
        known = self.known()
        return [(a, b) for a, b in zip(known, known[1:], strict=False) if self.verdicts[a] != self.verdicts[b]]

    def open_brackets(self) -> list[tuple[int, int]]:
        """Brackets with points between."""
        return [(a, b) for a, b in self.brackets() if b - a > 1]

    def changes(self) -> int:
        """How often the verdict changes from one known point to the next."""
        return len(self.brackets())

    def unknown_between(self, a: int, b: int) -> list[int]:
        """Unknown points inside a bracket, ascending."""
        return sorted(point for point, verdict in self.verdicts.items() if verdict == "unknown" and a < point < b)

    def beside_a_change(self, point: int, neighbour: int) -> bool:
        """Whether an open bracket starts or ends at a point and reaches to the side of its neighbour."""
        return any((point == a and neighbour > a) or (point == b and neighbour < b) for a, b in self.open_brackets())

    def flips(self) -> list[Flip]:
        """The brackets as flips, ascending."""
        return [Flip(a, b, b - a - 1) if self.verdicts[a] == "pass" else Flip(b, a, b - a - 1) for a, b in self.brackets()]

    def widest_gap(self) -> int:
        """The largest number of consecutive points in the range without a verdict."""
        marks = [self.low - 1, *self.known(), self.high + 1]
        return max(b - a - 1 for a, b in zip(marks, marks[1:], strict=False))


def next_point(a: int, b: int, unknown: list[int]) -> int | None:
    """Where to look next between two points of different verdict, or None when nothing more can be learnt.

    Args:
        a, b: a bracket; at least one point lies between.
        unknown: its points that were judged unknown, ascending.

    Returns:
        point: the middle. Beside unknown points, first the edges of the stretch that they span are closed in on, wider side
            first; then the stretch is searched, round numbers first, since what a kernel refuses is often all but multiples.
    """
    if not unknown:
        return (a + b) // 2
    if len(unknown) >= UNKNOWN_LIMIT:
        return None
    first, last = unknown[0], unknown[-1]
    if max(first - a, b - last) > 1:
        return (a + first) // 2 if first - a >= b - last else (last + b) // 2
    widest = max(((y - x, -x) for x, y in zip(unknown, unknown[1:], strict=False)), default=(0, 0))
    if widest[0] <= 1:
        return None
    start, size = -widest[1], widest[0]
    quarter = size // 4
    return _roundest(start + max(quarter, 1), start + size - max(quarter, 1))


def _roundest(first: int, last: int) -> int:
    """The number in first..last that is divisible by the highest power of two."""
    step = 1
    while last // (2 * step) * (2 * step) >= first:
        step *= 2
    return last // step * step
