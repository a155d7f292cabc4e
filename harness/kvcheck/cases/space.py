"""Counts, orders and draws the points of a product without building it.

A point is one index a factor; an exclusion forbids every point whose index lies in its set, for each factor that it names.
Counting walks the factors once for each set of exclusions that can still apply (a handful), so a product of 10**12 points
is counted, and a sample of it drawn, in milliseconds.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

MAX_STATES = 50_000

Exclusion = dict[int, frozenset[int]]


class TooManyRules(Exception):
    """The exclusions interact in too many ways to be counted."""


class Space:
    """The allowed points of a product.

    Args:
        domains: the indices each factor may take, ascending.
        exclusions: factor -> indices; a point inside all of them is not allowed.
    """

    def __init__(self, domains: Sequence[Sequence[int]], exclusions: Sequence[Exclusion] = ()) -> None:
        self.domains = [tuple(domain) for domain in domains]
        self.exclusions = tuple(exclusions)
        self._last = [max(rule, default=-1) for rule in self.exclusions]
        self._sums: dict[tuple[int, frozenset[int]], list[int]] = {}

    def count(self) -> int:
        """How many points are allowed."""
        alive = frozenset(range(len(self.exclusions)))
        if any(last < 0 for last in self._last):
            return 0
        return self._suffix(0, alive)

    def restricted(self, kept: dict[int, frozenset[int]]) -> Space:
        """The same space with some factors held to some of their indices."""
        domains = [[i for i in domain if i in kept[f]] if f in kept else domain for f, domain in enumerate(self.domains)]
        return Space(domains, self.exclusions)

    def point(self, rank: int) -> tuple[int, ...]:
        """The allowed point of a rank, in sweep order: the first factor varies slowest."""
        alive = frozenset(range(len(self.exclusions)))
        found = []
        for factor, domain in enumerate(self.domains):
            sums = self._cumulative(factor, alive)
            at = bisect_right(sums, rank)
            rank -= sums[at - 1] if at else 0
            found.append(domain[at])
            alive = self._after(factor, domain[at], alive)
        return tuple(found)

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return (self.point(rank) for rank in range(self.count()))

    def sample(self, size: int, seed: int) -> list[tuple[int, ...]]:
        """A seeded subset in sweep order, every subset equally likely (Floyd's algorithm)."""
        total = self.count()
        generator = random.Random(seed)
        drawn: set[int] = set()
        for top in range(max(total - size, 0), total):
            rank = generator.randrange(top + 1)
            drawn.add(top if rank in drawn else rank)
        return [self.point(rank) for rank in sorted(drawn)]

    def _suffix(self, factor: int, alive: frozenset[int]) -> int:
        if factor == len(self.domains):
            return 1
        sums = self._cumulative(factor, alive)
        return sums[-1] if sums else 0

    def _cumulative(self, factor: int, alive: frozenset[int]) -> list[int]:
        key = (factor, alive)
        if key not in self._sums:
            if len(self._sums) >= MAX_STATES:
                raise TooManyRules
            after: dict[frozenset[int], int] = {}
            counts = []
            for index in self.domains[factor]:
                left = self._after(factor, index, alive)
                if left not in after:
                    hit = any(self._last[rule] == factor for rule in left)
                    after[left] = 0 if hit else self._suffix(factor + 1, left)
                counts.append(after[left])
            self._sums[key] = list(accumulate(counts))
        return self._sums[key]

    def _after(self, factor: int, index: int, alive: frozenset[int]) -> frozenset[int]:
        return frozenset(rule for rule in alive if factor not in self.exclusions[rule] or index in self.exclusions[rule][factor])
