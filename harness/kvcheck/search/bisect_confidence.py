"""How sure an answer is of a fault that does not show in every run."""

from __future__ import annotations

import math
from dataclasses import dataclass

SURE = 0.95


@dataclass(frozen=True)
class Rate:
    """How often a fault showed where it is known to be.

    Args:
        failures: runs in which it showed.
        runs: runs that were made.
    """

    failures: int
    runs: int

    @property
    def estimate(self) -> float:
        """The share of runs in which it showed."""
        return self.failures / self.runs if self.runs else 0.0

    @property
    def at_least(self) -> float:
        """The smallest share that these runs leave room for, with 95 % confidence (Clopper and Pearson, one-sided)."""
        if not self.failures:
            return 0.0
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            if _at_least(self.failures, self.runs, middle) < 1 - SURE:
                low = middle
            else:
                high = middle
        return low

    def confidence(self, runs: int) -> float:
        """Chance that so many runs show the fault at least once, by the estimate."""
        return seen(self.estimate, runs)

    def worst(self, runs: int) -> float:
        """The same by the smallest share that is left room for."""
        return seen(self.at_least, runs)

    def needed(self) -> int | None:
        """Runs that show the fault at least once with 95 % confidence, by the estimate; None where it was never seen."""
        if not self.failures:
            return None
        return 1 if self.failures == self.runs else math.ceil(math.log(1 - SURE) / math.log(1 - self.estimate))


def seen(rate: float, runs: int) -> float:
    """`1 - (1 - rate) ** runs`: the chance to see a fault at least once."""
    return 1 - (1 - rate) ** runs


def _at_least(successes: int, runs: int, rate: float) -> float:
    """Chance of so many successes or more."""
    return sum(math.comb(runs, n) * rate**n * (1 - rate) ** (runs - n) for n in range(successes, runs + 1))
