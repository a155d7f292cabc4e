"""What trying one candidate showed, and what that says of the one fault that is looked for.

A candidate is tried with several probes. Each of them passes, fails in a way of its own (its identity), or says nothing. Which failure
is the one sought is decided by both ends together: it shows at the bad end, and its probe passes at the good end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

PASS, FAIL, SILENT = "pass", "fail", "silent"
GOOD, BAD, UNKNOWN = "good", "bad", "unknown"


@dataclass(frozen=True)
class Result:
    """What one probe said.

    Args:
        kind: "pass", "fail" or "silent".
        identity: of a failure: failures of one identity are taken for one fault.
        reason: why it said nothing.
    """

    kind: str
    identity: Hashable = None
    reason: str = ""


Evidence = Mapping[str, Result]
"""One run of a candidate: results by probe, in an order that does not change."""

Pair = tuple[str, Hashable]
"""A probe and the identity it failed with."""


@dataclass(frozen=True)
class Sought:
    """The fault that is looked for.

    Args:
        identity: how it shows.
        probes: those that it shows in at the bad end and not at the good end.
    """

    identity: Hashable
    probes: frozenset[str]

    def shows(self, run: Evidence) -> bool:
        """Whether a run shows it."""
        return any(_failed(run, probe) == self.identity for probe in self.probes)


@dataclass(frozen=True)
class Answer:
    """What a candidate is.

    Args:
        kind: "good", "bad" or "unknown".
        reason: why it is unknown, or what limits a good answer; "" where there is nothing to say.
        runs: how often it was run.
        failures: in how many of the runs the fault showed.
        others: other failures that were met.
    """

    kind: str
    reason: str = ""
    runs: int = 0
    failures: int = 0
    others: tuple[Pair, ...] = ()


def passed() -> Evidence:
    """A run of a candidate with one probe, which passes."""
    return {"": Result(PASS)}


def failed(identity: Hashable) -> Evidence:
    """A run of a candidate with one probe, which fails."""
    return {"": Result(FAIL, identity)}


def silent(reason: str) -> Evidence:
    """A run of a candidate with one probe, which says nothing."""
    return {"": Result(SILENT, reason=reason)}


def says_nothing(run: Evidence) -> bool:
    """Whether no probe of a run passes or fails."""
    return all(result.kind == SILENT for result in run.values())


def failures(runs: Iterable[Evidence]) -> Counter[Pair]:
    """In how many runs which probe failed how, in the order of the probes."""
    return Counter((probe, result.identity) for run in runs for probe, result in run.items() if result.kind == FAIL)


def choose(bad: Sequence[Evidence], good: Sequence[Evidence]) -> Sought | None:
    """The fault to look for: of the failures at the bad end whose probe passes at the good end, the one met most often there.

    Args:
        bad: runs of the bad end.
        good: runs of the good end.

    Returns:
        sought: None where no probe tells the ends apart.
    """
    telling = {pair: count for pair, count in failures(bad).items() if _passes(good, pair[0])}
    if not telling:
        return None
    most = max(telling.values())
    identity = next(pair[1] for pair, count in telling.items() if count == most)
    return Sought(identity, frozenset(probe for probe, how in telling if how == identity))


def alike(bad: Sequence[Evidence], other: Sequence[Evidence]) -> bool:
    """Whether a failure of the bad end shows elsewhere too, in the same probe."""
    return not failures(bad).keys().isdisjoint(failures(other))


def weigh(runs: Sequence[Evidence], sought: Sought, wanted: int = 1, always: Iterable[Pair] = ()) -> Answer:
    """What the runs of a candidate say of the fault.

    Args:
        runs: in order; fewer than wanted where one of them settled the answer.
        sought: the fault.
        wanted: runs that a good answer takes.
        always: failures that both ends have; they are not told of.

    Returns:
        answer: bad where any run shows the fault. A probe of the fault that fails in another way may hide it: unknown. Good where
            every wanted run judged a probe of the fault, and none failed.
    """
    shown = sum(sought.shows(run) for run in runs)
    others = tuple(
        pair for pair in failures(runs) if pair not in set(always) and not (pair[0] in sought.probes and pair[1] == sought.identity)
    )
    found = dict(runs=len(runs), failures=shown, others=others)
    if shown:
        return Answer(BAD, **found)
    hiding = next((pair for pair in others if pair[0] in sought.probes), None)
    if hiding:
        return Answer(UNKNOWN, "it fails in another way, which may hide the fault that is looked for", **found)
    for number, run in enumerate(runs, start=1):
        mine = [run[probe] for probe in run if probe in sought.probes]
        if not any(result.kind == PASS for result in mine):
            reason = next((result.reason for result in (*mine, *run.values()) if result.reason), "") or "nothing was judged"
            return Answer(UNKNOWN, reason if len(runs) == 1 else f"run {number} of {wanted}: {reason}", **found)
    if len(runs) < wanted:
        return Answer(UNKNOWN, f"only {len(runs)} of {wanted} runs were made", **found)
    unheard = {probe for run in runs for probe in sought.probes if run.get(probe, Result(SILENT)).kind == SILENT}
    limit = f"{len(unheard)} of {len(sought.probes)} cases that show the fault were not judged" if unheard else ""
    return Answer(GOOD, limit, **found)


def _failed(run: Evidence, probe: str) -> Hashable:
    result = run.get(probe)
    return result.identity if result is not None and result.kind == FAIL else _NONE


def _passes(runs: Sequence[Evidence], probe: str) -> bool:
    """Whether a probe passes in every run."""
    return bool(runs) and all(run.get(probe, Result(SILENT)).kind == PASS for run in runs)


_NONE = object()
