"""Finds the two neighbours between which a fault comes in, or goes, along an ordered range; knows nothing of kernels.

Positions count from the good side here, whichever way the range runs, so that there is one search:

    good  .  .  .  .  .  .  .  .  .  .  bad       both ends are tried first, the bad one before the good one
    good  .  .  .  .  u  .  .  .  .  .  bad       a middle without an answer is stepped over, by 1, 2, 4, ... to either side
    good  .  .  .  .  u  bad                      and what is left between is tried before it is called unknown
    good  .  good bad                             both neighbours are run again at the end
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence

from kvcheck.search import bisect_evidence as e
from kvcheck.search import bisect_found as f
from kvcheck.search.bisect_confidence import Rate
from kvcheck.search.bisect_evidence import Answer, Evidence, Pair
from kvcheck.search.bisect_found import Ask, Found, Question

INWARD = (1, 2, 4, 8, 16)
"""How far from an end without an answer another one is looked for."""


def bisect(ask: Ask, keys: Sequence[Hashable], *, find: str = "regression", runs: int = 1, unknown_limit: int | None = None) -> Found:
    """Searches a range for where a fault comes in.

    Args:
        ask: tries a candidate; returns its runs, at least one. Called once a key, and once more for each neighbour of the boundary.
        keys: of the candidates in order; equal keys are one candidate under several names.
        find: "regression": the first candidate is good and the last bad; "fix": the other way round.
        runs: runs that a good answer takes; the first run that shows the fault is a bad one.
        unknown_limit: most candidates without an answer between two with one before the search gives up; None is no limit.

    Returns:
        found: see `Found`. Without unknown answers a range of n takes at most ceil(log2(n - 1)) questions and the four of the ends.

    Raises:
        ValueError: fewer than two candidates, another `find`, or no run.
    """
    if len(keys) < 2:
        raise ValueError(f"a range of {len(keys)} has no two ends")
    if find not in ("regression", "fix"):
        raise ValueError(f"find is {find!r}, expected regression or fix")
    if runs < 1:
        raise ValueError(f"{runs} runs cannot answer anything")
    return _Search(ask, list(keys), find == "fix", runs, unknown_limit).search()


def steps_of(candidates: int) -> int:
    """Questions that a range takes where every candidate has an answer: the ends, the middles, and both neighbours again."""
    return 4 + halvings(candidates - 2)


def halvings(untried: int) -> int:
    """Questions that close a stretch of so many untried candidates."""
    return math.ceil(math.log2(untried + 1)) if untried > 0 else 0


def next_between(low: int, high: int, tried: frozenset[int] | set[int]) -> int | None:
    """The candidate to try between two others: the middle, else 1, 2, 4, ... beside it, else the nearest to it; None for none."""
    middle = (low + high) // 2
    order = [middle]
    step = 1
    while step < high - low:
        order += [middle + step, middle - step]
        step *= 2
    inside = [point for point in order if low < point < high and point not in tried]
    if inside:
        return inside[0]
    left = [point for point in range(low + 1, high) if point not in tried]
    return min(left, key=lambda point: (abs(point - middle), point)) if left else None


class _Search:
    def __init__(self, ask: Ask, keys: list[Hashable], reverse: bool, runs: int, limit: int | None) -> None:
        self._ask, self._runs, self._limit, self._reverse = ask, runs, limit, reverse
        self._keys = keys[::-1] if reverse else keys
        self._last = len(keys) - 1
        self._known: dict[int, Answer] = {}
        self._always: set[Pair] = set()
        self._found = Found()

    def search(self) -> Found:
        found = self._found
        found.outcome = self._walk()
        found.answers = {self._index(place): answer for place, answer in sorted(self._known.items())}
        for index, answer in [*found.answers.items(), *found.again.items()]:
            for pair in answer.others:
                where = found.others.setdefault(pair, [])
                where += [] if index in where else [index]
        bad = [place for place, answer in self._known.items() if answer.kind == e.BAD]
        good = [place for place, answer in self._known.items() if answer.kind == e.GOOD]
        if bad and good and min(bad) < max(good):
            found.turns = [(self._index(min(bad)), self._index(max(good)))]
        return found

    def _walk(self) -> str:
        found = self._found
        bad, outcome = self._bad_end()
        if bad is None:
            return outcome
        good, outcome = self._good_end(*bad)
        if good is None:
            return outcome
        low, high, stopped = self._close(good, bad[0])
        found.good, found.bad = self._index(low), self._index(high)
        between = range(low + 1, high)
        found.between = tuple(sorted(map(self._index, between)))
        found.untried = tuple(sorted(self._index(place) for place in between if place not in self._known))
        outcome = self._again(low, high)
        return outcome or (f.BRACKET if found.between or stopped else f.FOUND)

    def _bad_end(self) -> tuple[tuple[int, Sequence[Evidence]] | None, str]:
        """The last candidate that fails, and its runs; or how the search ends without one."""
        for place in self._ends(self._last, 0, -1):
            if place in self._known:
                continue
            ahead = (0, self._last // 2)
            runs = self._try(place, f.END_BAD, 3 + halvings(self._last - 1), ahead, lambda runs: e.says_nothing(runs[-1]))
            if e.failures(runs):
                self._took("bad", self._last, place)
                self._note(place, Answer(e.BAD, "", len(runs), sum(bool(e.failures([run])) for run in runs)))
                return (place, runs), ""
            if any(e.says_nothing(run) for run in runs):
                self._note(place, Answer(e.UNKNOWN, _why(runs), len(runs)))
                continue
            self._note(place, Answer(e.GOOD, _unheard(runs), len(runs)))
            if place == self._last:
                return None, f.BAD_END_IS_GOOD
            break
        return None, f.BAD_END_UNKNOWN

    def _good_end(self, bad: int, shown: Sequence[Evidence]) -> tuple[int | None, str]:
        """The first candidate that lacks a failure of the bad end, which is then the one sought."""
        found = self._found
        for place in self._ends(0, bad, 1):
            if place in self._known and self._known[place].kind == e.UNKNOWN:
                continue
            if self._keys[place] == self._keys[bad]:
                runs = shown
            else:
                ahead = (bad // 2, bad // 4)
                runs = self._try(place, f.END_GOOD, 2 + halvings(bad - 1), ahead, lambda runs: e.says_nothing(runs[-1]))
            found.sought = e.choose(shown, runs)
            if found.sought:
                self._always = set(e.failures(shown)) & set(e.failures(runs))
                answer = e.weigh(shown, found.sought, self._runs, self._always)
                found.rate = Rate(answer.failures, answer.runs)
                self._note(bad, answer)
                self._note(place, e.weigh(runs, found.sought, self._runs, self._always))
                self._took("good", 0, place)
                return place, ""
            if e.alike(shown, runs):
                self._note(place, Answer(e.BAD, "", len(runs), sum(e.alike(shown, [run]) for run in runs)))
                return None, f.GOOD_END_IS_BAD if place == 0 else f.GOOD_END_UNKNOWN
            self._note(place, Answer(e.UNKNOWN, _why(runs), len(runs), others=tuple(e.failures(runs))))
        return None, f.GOOD_END_UNKNOWN

    def _close(self, low: int, high: int) -> tuple[int, int, bool]:
        """Halves the stretch between two answers until nothing in it is left to try, or too much of it has no answer."""
        low, high = self._narrow(low, high)
        while True:
            tried = {place for place in range(low + 1, high) if place in self._known}
            place = next_between(low, high, tried)
            if place is None:
                return low, high, False
            if self._limit is not None and len(tried) >= self._limit:
                return low, high, True
            ahead = tuple(p for p in (next_between(low, place, tried), next_between(place, high, tried)) if p is not None)
            left = 2 + halvings((high - low - 2 - len(tried)) // 2)
            answer = self._settle(place, f.BETWEEN, left, ahead or (low, high))
            self._note(place, answer)
            low, high = self._narrow(low, high)

    def _narrow(self, low: int, high: int) -> tuple[int, int]:
        """The stretch between the first bad answer inside and the last good one before it."""
        bad = [place for place in range(low + 1, high) if place in self._known and self._known[place].kind == e.BAD]
        high = min(bad, default=high)
        good = [place for place in range(low + 1, high) if place in self._known and self._known[place].kind == e.GOOD]
        return max(good, default=low), high

    def _again(self, low: int, high: int) -> str | None:
        """Runs both neighbours again; how the search ends where they do not say the same."""
        found, outcome = self._found, None
        for number, (place, kind) in enumerate(((high, e.BAD), (low, e.GOOD))):
            answer = self._settle(place, f.AGAIN, 1 - number, (low,) if not number else ())
            found.again[self._index(place)] = answer
            if answer.kind == e.UNKNOWN:
                outcome = outcome or f.UNCONFIRMED
            elif answer.kind != kind:
                outcome = f.CONTRADICTED
        return outcome

    def _settle(self, place: int, why: str, left: int, ahead: tuple[int, ...]) -> Answer:
        """Tries a candidate for the fault that is sought."""
        sought = self._found.sought

        def weigh(runs: Sequence[Evidence]) -> Answer:
            return e.weigh(runs, sought, self._runs, self._always)

        def enough(runs: Sequence[Evidence]) -> bool:
            kinds = {runs[-1][probe].kind for probe in sought.probes if probe in runs[-1]}
            return e.FAIL in kinds or e.PASS not in kinds  # the fault, what may hide it, or nothing to hope for

        return weigh(self._try(place, why, left, ahead, enough, weigh))

    def _try(
        self,
        place: int,
        why: str,
        left: int,
        ahead: tuple[int, ...],
        enough: Callable[[Sequence[Evidence]], bool],
        weigh: Callable[[Sequence[Evidence]], Answer] | None = None,
    ) -> Sequence[Evidence]:
        self._found.questions += 1
        likely = tuple(dict.fromkeys(self._index(p) for p in ahead if self._keys[p] != self._keys[place]))
        runs = self._ask(Question(self._index(place), why, self._found.questions, left, likely, self._runs, enough, weigh))
        if not runs:
            raise ValueError(f"candidate {self._index(place)} was answered without a run")
        return runs

    def _ends(self, start: int, stop: int, step: int) -> list[int]:
        """An end, and where another one is looked for when it has no answer."""
        inward = [start + step * far for far in INWARD]
        return [start, *(place for place in inward if (stop - place) * step > 0)]

    def _note(self, place: int, answer: Answer) -> None:
        """Keeps an answer for every name of the candidate."""
        for other, key in enumerate(self._keys):
            if key == self._keys[place]:
                self._known[other] = answer

    def _took(self, which: str, named: int, place: int) -> None:
        if place != named:
            self._found.moved.append((which, self._index(named), self._index(place)))

    def _index(self, place: int) -> int:
        return self._last - place if self._reverse else place


def _why(runs: Sequence[Evidence]) -> str:
    if e.failures(runs):
        return "it fails in another way than the bad end"
    return next((result.reason for run in runs for result in run.values() if result.reason), "") or "nothing was judged"


def _unheard(runs: Sequence[Evidence]) -> str:
    silent = {probe for run in runs for probe, result in run.items() if result.kind == e.SILENT}
    return f"{len(silent)} of {len(runs[0])} cases were not judged" if silent else ""
