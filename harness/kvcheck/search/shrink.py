"""The smallest point that still answers in the same way: greedy passes, repeated until none of them finds anything.

In the manner of Hypothesis and shrinkray: everything goes through one `consider`, which asks about a point once and keeps it where the
answer is the one that is looked for. Passes know what a simpler point is; nothing here knows what a point means.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Point = dict[str, Any]
Build = Callable[[Any], Point]

PASS = "pass"
"""The answer of a point that is fine. Any other answer but None is an identity; None says nothing."""

TWIN_SHARE = 5
"""One evaluation in so many, and as much of the time, is left for the twin."""

MOST_FOR_TWIN = 60


@dataclass(frozen=True)
class Budget:
    """What a search may spend.

    Attributes:
        evaluations: points asked about.
        seconds: time.
    """

    evaluations: int = 500
    seconds: float = 300.0


class Exhausted(Exception):
    """The budget is spent; the text says which part of it."""


class Shrinker:
    """A search for the smallest point.

    Args:
        start: a point whose answer is the one that is looked for.
        judge: the answer of a point: PASS, an identity, or None.
        budget: what may be spent.
        clock: seconds, ascending.
        possible: whether a point can be at all; one that cannot says nothing, and costs nothing.

    Attributes:
        best: the smallest point so far.
        identity: the answer of the start; None where it has none.
        evaluations: points asked about.
        steps: points that were kept, one after the other.
        stopped_by: `evaluations` or `seconds` where the budget ended the search.
    """

    def __init__(
        self,
        start: Point,
        judge: Callable[[Point], Hashable],
        budget: Budget | None = None,
        clock: Callable[[], float] = time.monotonic,
        possible: Callable[[Point], bool] = lambda point: True,
    ) -> None:
        self._judge, self._budget, self._clock, self._possible = judge, budget or Budget(), clock, possible
        self._answers: dict[str, tuple[Point, Hashable]] = {}
        self._began = clock()
        self._share = 1 - 1 / TWIN_SHARE
        self.best, self.evaluations, self.steps = start, 0, 0
        self.stopped_by: str | None = None
        self.identity = self.ask(start)

    @property
    def passing(self) -> list[Point]:
        """Every point that was asked about and passes, in the order of asking."""
        return [point for point, answer in self._answers.values() if answer == PASS]

    def ask(self, point: Point) -> Hashable:
        """The answer of a point, asked once.

        Raises:
            Exhausted: the budget is spent.
        """
        key = json.dumps(point, sort_keys=True)
        if key not in self._answers:
            if not self._possible(point):
                self._answers[key] = (point, None)
                return None
            if self.evaluations >= max(self._budget.evaluations * self._share, self._budget.evaluations - MOST_FOR_TWIN, 1):
                raise Exhausted("evaluations")
            if self.evaluations and self._clock() - self._began >= self._budget.seconds * self._share:
                raise Exhausted("seconds")
            self.evaluations += 1
            self._answers[key] = (point, self._judge(point))
        return self._answers[key][1]

    def consider(self, point: Point) -> bool:
        """Keeps a point that answers as the start did.

        Raises:
            Exhausted: the budget is spent.
        """
        if self.identity is None or self.ask(point) != self.identity:
            return False
        if point != self.best:
            self.best = point
            self.steps += 1
        return True

    def run(self, passes: Sequence[Callable[[Shrinker], None]]) -> None:
        """Every pass in turn, until a round of all of them changes nothing or the budget is spent."""
        try:
            while self.stopped_by is None:
                before = self.best
                for each in passes:
                    each(self)
                if self.best == before:
                    return
        except Exhausted as error:
            self.stopped_by = str(error)

    def first(self, points: Iterable[Point]) -> bool:
        """Keeps the first of some points that answers so, simplest first."""
        return any(self.consider(point) for point in points)

    def integer(self, build: Build, value: int, low: int, step: int = 1, likely: Iterable[int] = ()) -> int:
        """Lowers a number: likely values from the smallest on, then halves what is left, then jumps by powers of two.

        Args:
            build: the point with a number.
            value: the number that `best` has.
            low: the smallest.
            step: what numbers are multiples of.
            likely: numbers worth a try; those that cannot be are left out.

        Returns:
            value: the number that `best` has now; a step less does not answer so.
        """
        low = -(-low // step) * step
        bad = low - step
        for number in sorted({low, *likely}):
            if low <= number < value and number % step == 0:
                if self.consider(build(number)):
                    value = number
                    break
                bad = number
        while True:
            while value - bad > step:
                middle = bad + (value - bad) // step // 2 * step
                if self.consider(build(middle)):
                    value = middle
                else:
                    bad = middle
            jumps = [step << power for power in reversed(range((value - low).bit_length())) if value - (step << power) >= low]
            jump = next((jump for jump in jumps if self.consider(build(value - jump))), None)
            if jump is None:
                return value
            value -= jump
            bad = low - step if value == low else value - step
            if value > low and self.consider(build(bad)):
                value, bad = bad, low - step

    def subset(self, build: Build, items: Sequence[Any], least: int = 0) -> list[Any]:
        """Leaves items out: all, then halves, quarters, ... down to one at a time, until none can go.

        Args:
            build: the point with some of the items.
            items: what `best` has.
            least: how many must stay.

        Returns:
            items: what `best` has now; without any one of them it does not answer so.
        """
        kept = list(items)
        if len(kept) > least and self.consider(build(kept[:least])):
            return kept[:least]
        size = max(len(kept) // 2, 1)
        while True:
            before, place = len(kept), 0
            while place < len(kept):
                fewer = kept[:place] + kept[place + size :]
                if least <= len(fewer) and self.consider(build(fewer)):
                    kept = fewer
                else:
                    place += size
            if size == 1 and len(kept) == before:
                return kept
            size = max(min(size // 2, len(kept)), 1)

    def twin(self, near: Iterable[Point], distance: Callable[[Point], Any]) -> Point | None:
        """The closest point that passes: of those that were asked about, and of some that are near.

        Args:
            near: points worth asking about.
            distance: from the smallest point, None where there is none; ties go to what sorts first as JSON.

        Returns:
            point: None where nothing near passes.
        """
        self._share = 1.0

        def key(point: Point) -> Any:
            return distance(point), json.dumps(point, sort_keys=True)

        reachable = [point for point in near if distance(point) is not None]
        try:
            for point in sorted(reachable, key=key)[:MOST_FOR_TWIN]:
                if self.ask(point) == PASS:
                    break
        except Exhausted as error:
            self.stopped_by = self.stopped_by or str(error)
        known = [point for point in self.passing if distance(point) is not None]
        return min(known, key=key, default=None)
