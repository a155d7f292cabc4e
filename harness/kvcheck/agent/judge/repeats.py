"""Repeats of one call in one process: the same inputs give the same bits."""

from __future__ import annotations

import torch

from kvcheck.agent.judge.evidence import Evidence, Finding

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def repeat(evidence: Evidence) -> Finding | None:
    """Promised elements of every repeat hold the bits of the first."""
    inside = evidence.inside()
    bits = BITS[evidence.actual.element_size()]
    for turn, other in enumerate(evidence.others, start=2):
        differs = (other.view(bits) != evidence.actual.view(bits)) & inside
        count = int(differs.sum())
        if count:
            message = f"run {turn} of the same inputs differs from the first in {count} of {int(inside.sum())} elements"
            return Finding("nondeterministic", "repeat", message, evidence.output, None, count, int(inside.sum()))
    return None
