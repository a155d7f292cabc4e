"""What a bisect asks, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kvcheck.search.bisect_confidence import Rate
from kvcheck.search.bisect_evidence import Answer, Evidence, Pair, Sought

END_BAD, END_GOOD, BETWEEN, AGAIN = "bad end", "good end", "between", "again"
"""Why a candidate is tried."""

FOUND = "found"
BRACKET = "bracket"
GOOD_END_IS_BAD, BAD_END_IS_GOOD = "good end is bad", "bad end is good"
GOOD_END_UNKNOWN, BAD_END_UNKNOWN = "good end unknown", "bad end unknown"
CONTRADICTED, UNCONFIRMED = "contradicted", "unconfirmed"


@dataclass(frozen=True)
class Question:
    """One candidate to try.

    Args:
        index: which.
        why: "bad end", "good end", "between" or "again" (a neighbour of the boundary once more: earlier runs do not count).
        number: of the question, from 1; a candidate that was answered already takes no number.
        left: about how many questions follow.
        ahead: the candidates most likely asked for next, at most two.
        runs: how often to run it at most.
        enough: whether the runs so far settle the answer.
        weigh: what runs say of the fault; None while that is not known.
    """

    index: int
    why: str
    number: int
    left: int
    ahead: tuple[int, ...]
    runs: int
    enough: Callable[[Sequence[Evidence]], bool]
    weigh: Callable[[Sequence[Evidence]], Answer] | None = None


Ask = Callable[[Question], Sequence[Evidence]]


@dataclass
class Found:
    """What a search found. Indices are those of the range, ascending as it runs.

    Attributes:
        outcome: one of the words above; only "found" is a boundary.
        good, bad: the neighbours of the boundary, or as near to it as answers are known; None where there is none.
        between: candidates between them, without an answer.
        untried: those of them that were not tried.
        sought: the fault.
        rate: how often it showed at the bad end.
        answers: by index, candidates that were tried and those of the same key.
        again: answers of the neighbours when they were run again.
        moved: named ends without an answer and the candidate taken for them.
        others: other failures by the candidates that have them.
        turns: (i, j) where the answers go back: i is bad, and j, on its far side from the good end, is good.
        questions: how many were asked.
    """

    outcome: str = FOUND
    good: int | None = None
    bad: int | None = None
    between: tuple[int, ...] = ()
    untried: tuple[int, ...] = ()
    sought: Sought | None = None
    rate: Rate | None = None
    answers: dict[int, Answer] = field(default_factory=dict)
    again: dict[int, Answer] = field(default_factory=dict)
    moved: list[tuple[str, int, int]] = field(default_factory=list)
    others: dict[Pair, list[int]] = field(default_factory=dict)
    turns: list[tuple[int, int]] = field(default_factory=list)
    questions: int = 0
