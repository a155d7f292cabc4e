"""Outputs that are copied or counted, not rounded: every element is the reference's, bit for bit."""

from __future__ import annotations

import torch

from kvcheck.agent.judge import spread
from kvcheck.agent.judge.evidence import Evidence, Finding, first

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def exact(evidence: Evidence) -> Finding | None:
    """Promised elements equal the reference's; of an output that is changed in place, the others hold what they held.

    Elements that an in-place output still holds from before, where the reference has another value, are `unwritten`.
    """
    inside, actual = evidence.inside(), evidence.actual
    differs = bits(actual) != bits(evidence.expected.to(actual.dtype))
    before = evidence.inputs.initial.get(evidence.output)
    if before is None:
        differs &= inside
    count, total = int(differs.sum()), int(inside.sum())
    evidence.metrics["wrong_elements"] = count
    if not total:
        evidence.trivial.append("wrong_elements")
    if not count:
        return None
    index = first(differs)
    where = evidence.where(index, evidence.expected[index].item(), actual[index].item())
    verdict, what = "mismatch", "differ from the reference"
    if before is not None:
        stray = int((differs & ~inside).sum())
        if not bool((differs & (bits(actual) != bits(before.to(actual.device)))).any()):
            verdict, what = "unwritten", "still hold what they held before the call"
        elif stray:
            what += f", {stray} of them where nothing may be written"
    message = f"{count} elements {what}, of {total} that are promised"
    return Finding(verdict, "exact", message, evidence.output, where, count, total, spread.wrong(evidence, differs))


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements of a tensor as integers, so that NaN equals itself and -0 is not 0."""
    return tensor.contiguous().view(BITS[tensor.element_size()])
