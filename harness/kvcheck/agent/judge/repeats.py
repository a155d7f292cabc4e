"""Repeats of one call in one process, and a graph's replay: the same inputs give the same bits."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.judge.evidence import Evidence, Finding
from kvcheck.agent.judge.exact import bits


def repeat(evidence: Evidence) -> Finding | None:
    """Promised elements of every repeat hold the bits of the first."""
    for turn, other in enumerate(evidence.others, start=2):
        count, total = _differing(evidence, other)
        if count:
            message = f"run {turn} of the same inputs differs from the first in {count} of {total} elements"
            return Finding("nondeterministic", "repeat", message, evidence.output, None, count, total)
    return None


def graph(evidence: Evidence) -> Finding | None:
    """Promised elements of a graph's replay hold the bits of an eager call."""
    if evidence.eager is None:
        return None
    count, total = _differing(evidence, evidence.eager)
    if not count:
        return None
    message = f"the graph's replay differs from an eager call on the same inputs in {count} of {total} elements"
    return Finding("metamorphic", "graph", message, evidence.output, None, count, total)


def _differing(evidence: Evidence, other: Any) -> tuple[int, int]:
    """How many promised elements hold other bits, and how many there are."""
    inside = evidence.inside()
    return int(((bits(other) != bits(evidence.actual)) & inside).sum()), int(inside.sum())
