"""Names the fault behind a wrong output: those that know the op are applied to torch_eager on the same inputs, one by one, then in pairs.

Everything here runs on the CPU, on copies: a planted fault that reads where nothing is would cost a GPU's context.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kvcheck.agent import assemble
from kvcheck.agent.calling import Call, call
from kvcheck.agent.diagnosis import candidates, facts, slots
from kvcheck.agent.diagnosis.compare import Agreement, Outcome, Promise, agree, outcome
from kvcheck.agent.inputs import pitch
from kvcheck.agent.inputs.arena import Arena
from kvcheck.agent.inputs.bundle import Inputs

SECONDS = 10.0
"""What a case may cost by default."""

LARGEST = 1 << 29
"""Bytes of inputs and outputs up to which they are copied for every fault."""

PAIRED = 5
"""Faults that come nearest, of which pairs are tried."""

PARTIAL = 0.5
"""Share of the wrong elements that a fault must explain to be named although it does not explain all."""

AGREEING = 6
"""Faults that are named where several explain everything."""

Again = Callable[[str], "tuple[Inputs, Call] | None"]


@dataclass(frozen=True)
class Judged:
    """A failing case.

    Attributes:
        op: the op's module.
        request: the `case` message.
        params: resolved params.
        inputs: the call.
        used: the kernel's copy of the tensors, after the call.
        arena: guarded memory of the call.
        made: what came of it.
        expected: value and bound of every output that was judged, by name.
        spent_s: seconds that the case has cost.
    """

    op: Any
    request: dict[str, Any]
    params: dict[str, Any]
    inputs: Inputs
    used: dict[str, Any]
    arena: Any
    made: Call
    expected: dict[str, tuple[Any, Any]]
    spent_s: float


def diagnose(judged: Judged, again: Again) -> list[dict[str, Any]]:
    """What explains a failing case.

    Args:
        judged: the case.
        again: the kernel's call on the same case with other `values`, with its inputs; None where it cannot be repeated.

    Returns:
        diagnosis: {fault, explains, elements, sentence} each, those that explain everything first; `fault` is None where none does, and
            `explains` too where nobody looked. Empty where there is no output, or where the first output is right.
    """
    if judged.made.actual is None:
        return []
    octets = sum(t.numel() * t.element_size() for t in [*judged.inputs.tensors.values(), *judged.made.actual.values()])
    budget = _budget(judged)
    if octets > LARGEST:
        return [_unknown(None, 0, f"not diagnosed: {octets / 2**30:.1f} GiB of tensors would be copied for every fault")]
    if judged.spent_s > budget / 2:
        return [_unknown(None, 0, f"not diagnosed: the case took {judged.spent_s:.1f} s, and {budget:.1f} s are left to try faults in")]
    return _Search(judged, again, time.monotonic() + budget).run()


def _budget(judged: Judged) -> float:
    """Seconds to spend: a third of what the case's own limit leaves, at most."""
    wanted = float(judged.request.get("diagnose_s") or SECONDS)
    limit = judged.request.get("limit_s")
    return max(min(wanted, (float(limit) - judged.spent_s) / 3), 0.0) if limit else wanted


def _unknown(explains: float | None, elements: int, sentence: str) -> dict[str, Any]:
    return {"fault": None, "explains": explains, "elements": elements, "sentence": sentence}


class _Search:
    """The faults tried on one case."""

    def __init__(self, judged: Judged, again: Again, deadline: float):
        self.judged, self.again, self.deadline = judged, again, deadline
        self.op = judged.request["op"]
        self.promises = _promises(judged)
        self.actual = outcome(judged.inputs, judged.used, judged.arena, judged.made)
        self.honest: Outcome | None = None
        self.skipped = 0

    def run(self) -> list[dict[str, Any]]:
        """The entries."""
        self.honest = self._left(candidates.BASE)
        base = agree(self.actual, self.honest, self.promises) if self.honest else None
        if base and base.whole:
            return []
        found: dict[str, Agreement] = {}
        for name in candidates.names(self.op, self._data(base)):
            self._try(name, found)
        whole = [name for name, each in found.items() if each.whole]
        if not whole and base:
            near = sorted((name for name in found if found[name].same > base.same), key=lambda name: -found[name].same)[:PAIRED]
            for pair in itertools.permutations(near, 2):
                if not whole:
                    self._try("+".join(pair), found)
                    whole = [name for name, each in found.items() if each.whole]
        if whole:
            return self._named(whole, found)
        return self._partly(base, found) + [self._none(base, found)]

    def _try(self, name: str, found: dict[str, Agreement]) -> None:
        """Applies a fault; one that changes nothing here, or that cannot answer, is left out."""
        if time.monotonic() > self.deadline:
            self.skipped += 1
            return
        left = self._left(f"fault:{name}")
        if left is None or (self.honest and agree(left, self.honest, self.promises).whole):
            return
        found[name] = agree(self.actual, left, self.promises)

    def _left(self, provider: str) -> Outcome | None:
        """What a kernel leaves on copies of the inputs; None where it raises."""
        inputs = self.judged.inputs
        request = {**self.judged.request, "repeat": 1, "params": {**self.judged.params, "launch": "eager"}}
        arena = Arena(torch.device("cpu"))
        used = {name: pitch.copied(tensor, "cpu") for name, tensor in inputs.tensors.items()}
        made = call(assemble.provider(provider, torch.device("cpu")), request, inputs, used, arena, lambda phase: None)
        return None if made.actual is None else outcome(inputs, used, arena, made)

    def _data(self, base: Agreement | None) -> dict[str, Any]:
        """What values of faults are taken from."""
        params, rows = self.judged.params, self.judged.inputs.row_lengths
        lens = self.judged.inputs.tensors.get("context_lens")
        data: dict[str, Any] = {"lengths": [], "wrong": [], "topk": params.get("topk")}
        if base is None or rows is None or lens is None:
            return data
        (wrong,) = base.wrong.values()
        batch = len(lens)
        data["lengths"] = lens.view(batch, -1).amax(1).tolist()
        data["wrong"] = wrong.flatten(1).any(1).view(batch, -1).any(1).tolist()
        return data

    def _named(self, whole: list[str], found: dict[str, Agreement]) -> list[dict[str, Any]]:
        """Everything that explains all: fewest faults first, then those that owe no value to the data, then by name."""
        values: dict[str, list[str]] = {}
        for name in whole:
            values.setdefault(name.partition("=")[0], []).append(name)
        entries = []
        for first, *others in list(values.values())[:AGREEING]:
            text = candidates.sentence(first)
            if others:
                text += f"; {', '.join(name.partition('=')[2] for name in others)} would do as well"
            if len(values) > 1:
                text += f"; {len(values)} faults leave exactly this, and the case cannot tell them apart"
            entries.append({"fault": first, "explains": 1.0, "elements": found[first].of, "sentence": text})
        return entries

    def _partly(self, base: Agreement | None, found: dict[str, Agreement]) -> list[dict[str, Any]]:
        """The fault that comes nearest, where it explains enough of what is wrong."""
        if not found or base is None:
            return []
        name = max(found, key=lambda each: (found[each].same / found[each].of, -each.count("+")))
        each = found[name]
        wrong, left = base.of - base.same, each.of - each.same
        if wrong - left < PARTIAL * wrong:
            return []
        text = f"{candidates.sentence(name)}; this is not all: {left} of {each.of} elements are still not what the kernel left"
        return [{"fault": name, "explains": each.same / each.of, "elements": each.of, "sentence": text}]

    def _none(self, base: Agreement | None, found: dict[str, Agreement]) -> dict[str, Any]:
        """That no fault explains it, and what is known."""
        text = f"none of the {len(found)} faults that change this case explains it"
        if self.skipped:
            text += f" ({self.skipped} more were not tried: time was up)"
        known = self._known(base) if base else ["the honest kernel refuses this case"]
        beacon = self._slots()
        return _unknown(0.0, base.of if base else 0, ": ".join([text, "; ".join([*known, beacon] if beacon else known)]))

    def _known(self, base: Agreement) -> list[str]:
        texts = []
        inputs = self.judged.inputs
        for name, wrong in base.wrong.items():
            if not bool(wrong.any()):
                continue
            rows = inputs.row_lengths if inputs.row_lengths is not None and wrong.dim() == 2 and name == "logits" else None
            axes = inputs.axes.get(name) or (("row", "position") if wrong.dim() == 2 else tuple(f"axis {n}" for n in range(wrong.dim())))
            said = facts.known(wrong, self.promises[name].inside, axes, rows, inputs.block_size)
            texts += [f"{name}: {said[0]}", *said[1:]] if len(base.wrong) > 1 else said
        if self.actual.mutated:
            texts.append(f"inputs that were changed: {', '.join(sorted(self.actual.mutated))}")
        if self.actual.guards:
            texts.append("memory beside an output or its scratch was written")
        return texts

    def _slots(self) -> str | None:
        """What the kernel reads, from slot beacons of the same case; None where that says nothing."""
        unsafe = self.actual.guards or self.actual.mutated or time.monotonic() > self.deadline
        if self.op != "paged_mqa_logits" or unsafe:
            return None
        repeated = self.again(slots.VALUES)
        if repeated is None:
            return None
        inputs, made = repeated
        if made.actual is None:
            reason = made.finding.message if made.finding else made.unsupported
            return f"on slot beacons of the same case it ended in: {reason}"
        return slots.said(inputs, made.actual["logits"].cpu())


def _promises(judged: Judged) -> dict[str, Promise]:
    """What is promised of every output that was judged."""
    inputs, checks, found = judged.inputs, judged.op.checks(judged.params), {}
    for name, (expected, bound) in judged.expected.items():
        shape = inputs.outputs[name][0]
        names = checks[name] if isinstance(checks, dict) else checks
        inside = inputs.inside.get(name)
        if inside is None and inputs.row_lengths is not None and len(shape) == 2:
            inside = torch.arange(shape[1]) < inputs.row_lengths[:, None]
        found[name] = Promise(
            inside=torch.ones(shape, dtype=torch.bool) if inside is None else inside,
            expected=None if expected is None else expected.cpu(),
            bound=None if bound is None else bound.cpu(),
            before=inputs.initial.get(name),
            ends="finite_mask" in names,
            unordered="topk_positions" in names,
        )
    return found
