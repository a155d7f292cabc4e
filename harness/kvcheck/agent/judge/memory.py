"""Checks of what a kernel did to memory: inputs, guards, elements nobody wrote."""

from __future__ import annotations

import torch

from kvcheck.agent.inputs import pitch
from kvcheck.agent.inputs.arena import is_sentinel
from kvcheck.agent.judge import spread
from kvcheck.agent.judge.evidence import Evidence, Finding, first


def input_mutated(evidence: Evidence) -> Finding | None:
    """Every input still holds the bytes that it held before the call."""
    for name, before in evidence.tensors.items():
        after = evidence.used[name]
        if after.shape != before.shape or after.dtype != before.dtype or after.stride() != before.stride():
            return Finding("input_mutated", "input_mutated", f"input {name} changed its shape, strides or dtype")
        octets = [pitch.octets(side) for side in (after, before)]
        if not torch.equal(*octets):  # allocates nothing, where counting would upcast a cache to 64 bits an element
            changed = (octets[0] != octets[1]).flatten()
            count = int(torch.count_nonzero(changed))
            where = int(torch.argmax(changed.to(torch.uint8)))
            message = f"input {name} was changed: {count} of {changed.numel()} bytes, first at byte {where}"
            return Finding("input_mutated", "input_mutated", message, bad_count=count, element_count=changed.numel())
    return None


def guards(evidence: Evidence) -> Finding | None:
    """The guard words around every output and scratch tensor are unchanged."""
    hits = evidence.arena.guard_hits()
    evidence.metrics["guard_hits"] = sum(count for _, count, _ in hits)
    if not hits:
        return None
    name, count, where = hits[0]
    side = f"{where} words past its end" if where >= 0 else f"{-where} words before its start"
    message = f"{count} guard words of {name} were overwritten, first {side}"
    return Finding("out_of_bounds_write", "guards", message, output=name, bad_count=evidence.metrics["guard_hits"])


def sentinel(evidence: Evidence) -> Finding | None:
    """No promised element still holds the sentinel."""
    if evidence.returned:
        evidence.metrics["unwritten"] = 0
        evidence.trivial.append("unwritten")
        return None
    promised = evidence.inside()
    left = is_sentinel(evidence.actual) & promised
    count = int(left.sum())
    evidence.metrics["unwritten"] = count
    if not count:
        return None
    where = evidence.where(first(left), "a value", "unwritten")
    total = int(promised.sum())
    message = f"{count} of {total} promised elements were never written"
    return Finding("unwritten", "sentinel", message, evidence.output, where, count, total, spread.wrong(evidence, left))
