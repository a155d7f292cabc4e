"""Repeats of one call in one process: the same inputs give the same bits."""

from __future__ import annotations

from kvcheck.agent.judge.evidence import Evidence, Finding
from kvcheck.agent.judge.exact import bits


def repeat(evidence: Evidence) -> Finding | None:
    """Promised elements of every repeat hold the bits of the first."""
    inside = evidence.inside()
    for turn, other in enumerate(evidence.others, start=2):
        differs = (bits(other) != bits(evidence.actual)) & inside
        count = int(differs.sum())
        if count:
            message = f"run {turn} of the same inputs differs from the first in {count} of {int(inside.sum())} elements"
            return Finding("nondeterministic", "repeat", message, evidence.output, None, count, int(inside.sum()))
    return None
