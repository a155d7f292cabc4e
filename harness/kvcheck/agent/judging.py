"""One case judged: the reference, the premise, every check of every output, one verdict."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import pkgutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kvcheck.agent import assemble, precision
from kvcheck.agent.calling import Call
from kvcheck.agent.inputs import pitch
from kvcheck.agent.judge import expected as expectations
from kvcheck.agent.judge import refusal, repeats, verdict
from kvcheck.agent.judge.evidence import Evidence, Finding
from kvcheck.agent.judge.probe import probe

SUMMED = frozenset({"nonfinite_expected", "nonfinite_actual", "unwritten"})


@dataclass(frozen=True)
class Judged:
    """Both sides of a call.

    Attributes:
        expected: value and bound of every output, by name; empty where nothing was expected.
        actual: what the kernel left, by name, or None.
    """

    expected: dict[str, tuple[Any, Any]]
    actual: dict[str, Any] | None


class Judgement:
    """Judges one case.

    Args:
        op: the op's module.
        request: a `case` message.
        params: resolved params.
        inputs: the call.
        provider: the bound provider, or None.
        device: torch device of the case.
        facts: the device part of the environment.
        phase: told the phase that begins.
        installed: context in which launches go where the cases run.
    """

    def __init__(
        self,
        op: Any,
        request: dict[str, Any],
        params: dict[str, Any],
        inputs: Any,
        provider: Any,
        device: Any,
        facts: dict[str, Any],
        phase: Callable[[str], None],
        installed: Callable[[], Any] = contextlib.nullcontext,
    ):
        self.op, self.request, self.params, self.inputs, self.provider = op, request, params, inputs, provider
        self.device, self.facts, self.phase, self.installed = device, facts, phase, installed
        self.expected: dict[str, tuple[Any, Any]] = {}

    def judge(self, used: dict[str, Any], arena: Any, call: Call) -> dict[str, Any]:
        """The judged part of a row.

        Args:
            used: the kernel's copy of the tensors, after the call.
            arena: guarded memory of the call.
            call: what came of it.
        """
        self.phase("reference")
        begun = time.perf_counter()
        tensors = {name: pitch.copied(tensor, self.device) for name, tensor in self.inputs.tensors.items()}
        row: dict[str, Any] = {}
        sides = self._refused(tensors) if self.inputs.refusal else self._expected(tensors, row)
        self.expected = sides
        reference_ms = (time.perf_counter() - begun) * 1e3
        self.phase("judge")
        begun = time.perf_counter()
        withheld = (self.provider and self.provider.hook("withheld", self.request["op"], self.params)) or ()
        kept = [name for name in self.inputs.outputs if name not in withheld]
        evidence = [self._evidence(name, sides[name], tensors, used, arena, call) for name in kept]
        row.update(refusal.judge(self.inputs.refusal, call, evidence) if self.inputs.refusal else self._verdict(evidence, call))
        row["timing"] = {"reference_ms": reference_ms, "judge_ms": (time.perf_counter() - begun) * 1e3}
        return row

    def _refused(self, tensors: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Nothing is expected of the outputs of a case that must be refused, and the reference must say so too."""
        reference = assemble.reference(self.request["op"])
        try:
            reference(**tensors, **self.inputs.scalars, **_seats(self.inputs, {}), alloc=None)
        except ValueError:
            return dict.fromkeys(self.inputs.outputs, (None, None))
        raise RuntimeError(f"the reference answers a case that the op says must be refused: {self.inputs.refusal}")

    def _verdict(self, evidence: list[Evidence], call: Call) -> dict[str, Any]:
        checks = [_checks(self.op, self.params, each.output) for each in evidence]
        unmet = next((found for each, names in zip(evidence, checks, strict=True) if (found := verdict.unmet_premise(each, names))), None)
        findings: list[Finding] = [call.finding] if call.finding else []
        if call.actual is not None:
            found = [item for each, names in zip(evidence, checks, strict=True) for item in verdict.run_checks(each, names)]
            findings += sorted(found, key=lambda item: _place(item))  # stable: outputs stay in their order
            findings += [item for each in evidence if (item := repeats.graph(each))]
        findings += call.later
        promised = sum(int(each.inside().sum()) for each in evidence)
        row = verdict.compose(findings, _merged(evidence), [name for each in evidence for name in each.trivial], promised)
        if unmet:
            row.update(verdict="invalid_case", message=unmet.message, also_failed=[])
            row.pop("check", None)
            if call.finding:
                row["message"] += f"; the kernel ended in: {call.finding.message}"
        elif call.unsupported is not None:
            row.update(verdict="unsupported", message=call.unsupported)
        elif call.actual is None and call.finding is None and not self.request.get("premise_only"):
            row.update(verdict="harness_error", message="the kernel was not called")
        elif not promised and row["verdict"] == "pass":
            row["message"] = "no position is promised: only padding, guards and inputs could have failed"
        if call.actual is not None and self.request.get("fresh", 1) > 1:
            row["output_digest"] = _digest(evidence)
        row["premise"] = "fails" if unmet else "holds"
        return row

    def _evidence(self, name: str, side: tuple[Any, Any], tensors: dict, used: dict, arena: Any, call: Call) -> Evidence:
        lengths = self.inputs.row_lengths
        return Evidence(
            output=name,
            case=self.params,
            inputs=self.inputs,
            tensors=tensors,
            used=used,
            arena=arena,
            actual=None if call.actual is None else call.actual[name],
            expected=side[0],
            bound=side[1],
            row_lengths=None if lengths is None else lengths.to(self.device),
            returned=name in call.returned,
            eager=None if call.eager is None else call.eager[name],
            others=[other[name] for other in call.others if other is not None],
        )

    def _expected(self, tensors: dict[str, Any], row: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
        """Value and bound of every output; the precision model goes into the row where there is a bound."""
        name = self.request["op"]
        if name in {module.name for module in pkgutil.iter_modules(expectations.__path__)}:
            model, origin = self._model()
            row["precision"] = f"{model.name} ({origin})"
            return importlib.import_module(f"{expectations.__name__}.{name}").expected(self.inputs, tensors, model)
        given = {key: pitch.copied(self.inputs.initial[key], self.device) for key in self.inputs.initial}
        return {key: (each, None) for key, each in referenced(name, self.inputs, tensors, given).items()}

    def _model(self) -> tuple[Any, str]:
        """The precision model of a case, and where it is from: given, probed, declared or assumed."""
        given = self.request.get("precision")
        if given == precision.PROBE:
            self.phase("kernel")
            with self.installed():
                found = probe(self.op, self.provider.function(self.request["op"]), self.params, self.device) if self.provider else None
            self.phase("reference")
            if found:
                return precision.parse(found), "probed"
        elif given:
            return precision.parse(given), "given"
        declared = self.provider.precision(self.request["op"], self.params, self.facts) if self.provider else None
        if declared:
            return precision.parse(declared), "declared"
        return precision.parse(precision.assumed(self.facts, self.request["op"])), "assumed"


def _digest(evidence: list[Evidence]) -> str:
    """SHA-256 over the promised elements of all outputs, to compare processes with."""
    digest = hashlib.sha256()
    for each in evidence:
        kept = each.actual[each.inside()].contiguous().cpu()
        digest.update(memoryview(kept.view(torch.uint8).numpy()))
    return digest.hexdigest()[:16]


def referenced(op: str, inputs: Any, tensors: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """What the reference of an op leaves, by output.

    Args:
        op: its name.
        inputs: the call.
        tensors: its tensors, on one device.
        given: what an in-place output holds before, there too.
    """
    value = assemble.reference(op)(**tensors, **inputs.scalars, **_seats(inputs, given), alloc=None)
    if isinstance(value, dict):
        return value
    return dict(zip(inputs.outputs, value if isinstance(value, (tuple, list)) else (value,), strict=True))


def _seats(inputs: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The output arguments as a reference gets them: what an in-place op finds there, else None."""
    names = list(inputs.outputs)
    return {"out": given.get(names[0])} if len(names) == 1 else {name: given.get(name) for name in names}


def _checks(op: Any, params: dict[str, Any], output: str) -> tuple[str, ...]:
    """The checks of one output: an op with several names them by output."""
    names = op.checks(params)
    return names[output] if isinstance(names, dict) else names


def _place(finding: Finding) -> int:
    """Where a check stands in the house's order."""
    order = list(verdict.CHECKS)
    return order.index(finding.check) if finding.check in order else len(order)


def _merged(evidence: list[Evidence]) -> dict[str, Any]:
    """Metrics of all outputs: counts added up, everything else at its worst."""
    merged: dict[str, Any] = {}
    for each in evidence:
        for name, value in each.metrics.items():
            if name not in merged:
                merged[name] = value
            elif isinstance(value, (int, float)):
                merged[name] = merged[name] + value if name in SUMMED else max(merged[name], value)
    return merged
