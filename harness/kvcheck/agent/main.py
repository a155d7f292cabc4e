"""One case from inputs to row: build, call the kernel, call the reference, judge."""

from __future__ import annotations

import importlib
import time
import traceback
from dataclasses import dataclass, field
from typing import Any, Callable

import torch

from kvcheck.agent import assemble, precision, specs
from kvcheck.agent.compile_clock import CompileClock
from kvcheck.agent.inputs.arena import Arena
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.judge import bounds, verdict
from kvcheck.agent.judge.evidence import Evidence, Finding
from kvcheck.agent.judge.premise import premise
from kvcheck.agent.judge.probe import probe
from kvcheck.agent.protocol import is_unsupported

Phase = Callable[[str], None]


@dataclass
class Call:
    """What came of calling the kernel."""

    actual: Any = None
    returned: bool = False
    finding: Finding | None = None
    unsupported: str | None = None
    load_error: str | None = None
    context_lost: bool = False
    kernel_ms: float | None = None
    others: list[Any] = field(default_factory=list)


class Runner:
    """Runs cases on one device; providers are loaded once.

    Args:
        device: torch device.
        facts: the device part of the environment: type, name, arch, interpreted.
    """

    def __init__(self, device: Any, facts: dict[str, Any]):
        self.device = torch.device(device)
        self.facts = {"interpreted": self.device.type == "cpu", **facts}
        self._providers: dict[str, assemble.Provider] = {}

    def run_case(self, request: dict[str, Any], phase: Phase) -> dict[str, Any]:
        """Judges one case.

        Args:
            request: a `case` message: op, provider, params, seed, and optionally precision, repeat, run_unsupported, premise_only.
            phase: told the phase that begins.

        Returns:
            row: the agent's part of a `cases` row, and `premise`: "holds", "fails" or "unknown" (the device context was lost).
        """
        started = time.perf_counter()
        problems = specs.check_params(request["op"], request["params"])
        if problems:
            return _blank("harness_error", "the case does not fit the op: " + "; ".join(map(str, problems)))
        provider, call = None, Call()
        if not request.get("premise_only"):
            phase("load")
            provider, call = self._load(request["provider"])
            if call.load_error:
                return _blank("harness_error", call.load_error)
        phase("inputs")
        params = self._resolve(request["params"])
        op = importlib.import_module(f"kvcheck.agent.ops.{request['op']}")
        try:
            inputs = op.make_inputs(params, Generator(request["seed"]))
        except ValueError as error:
            return {**_blank("invalid_case", str(error)), "params": params, "premise": "fails"}
        arena = Arena(self.device)
        used = {name: tensor.to(self.device, copy=True) for name, tensor in inputs.tensors.items()}
        if provider and call.unsupported is None and call.finding is None:
            phase("kernel")
            call = self._call(provider, request, inputs, used, arena, phase)
        row = {"params": params, "input_fingerprint": inputs.fingerprint()}
        if provider:
            row["provider_version"] = provider.hook("version")
            row["dispatch"] = self._dispatch(provider, request["op"], call)
        if call.context_lost:
            return {**_blank(call.finding.verdict, call.finding.message), **row, "premise": "unknown"}
        row.update(self._judge(op, request, params, inputs, used, arena, provider, call, phase))
        row["timing"]["kernel_ms"] = call.kernel_ms
        row["timing"]["total_ms"] = (time.perf_counter() - started) * 1e3
        return row

    def doctor(self) -> list[dict[str, Any]]:
        """Which providers can run here: name, available, reason, remedy, ops, problems (signatures that differ from the op's)."""
        rows = []
        for name in specs.names("providers"):
            data = specs.load("providers", name).data
            row = {"name": name, "ops": data["ops"], "available": True, "reason": None, "remedy": data.get("remedy"), "problems": []}
            try:
                bound = assemble.provider(name, self.device)
                for op in data["ops"]:
                    row["problems"] += assemble.signature_problems(op, bound.function(op))
                row["version"] = bound.hook("version")
            except Exception as error:
                row.update(available=False, reason=f"{type(error).__name__}: {error}")
            rows.append(row)
        return rows

    def _load(self, name: str) -> tuple[Any, Call]:
        try:
            if name not in self._providers:
                self._providers[name] = assemble.provider(name, self.device)
            return self._providers[name], Call()
        except Exception as error:
            if is_unsupported(error):
                return None, Call(unsupported=str(error))
            return None, Call(load_error=f"provider {name} did not load: {_crash(error).message}")

    def _resolve(self, params: dict[str, Any]) -> dict[str, Any]:
        params = dict(params)
        if params.get("kv_dtype") == "auto":
            params["kv_dtype"] = "e4m3fnuz" if str(self.facts.get("arch", "")).startswith("gfx94") else "e4m3fn"
        if params.get("poison") == "auto":
            params["poison"] = "finite_beacon" if self.device.type == "cpu" else "nan"
        return params

    def _dispatch(self, provider: Any, op: str, call: Call) -> str | None:
        try:
            said = provider.describe(op)
        except Exception:
            return None
        return said + ("; the kernel returned its own tensor, so guards could not see its stores" if call.returned else "")

    def _call(self, provider: Any, request: dict[str, Any], inputs: Any, used: dict[str, Any], arena: Arena, phase: Phase) -> Call:
        name, (shape, dtype) = next(iter(inputs.outputs.items()))
        call = Call()
        for turn in range(max(int(request.get("repeat") or 1), 1)):
            out = arena.output(name, shape, dtype)
            clock = CompileClock(phase)
            try:
                provider.body.run_unsupported = bool(request.get("run_unsupported"))
                function = provider.function(request["op"])
                with clock:
                    begun = time.perf_counter()
                    result = function(**used, **inputs.scalars, out=out, alloc=arena.alloc)
                    self._synchronize()
                    spent = (time.perf_counter() - begun - clock.seconds) * 1e3
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                if is_unsupported(error):
                    call.unsupported = str(error)
                else:
                    call.finding = _crash(error)
                    call.context_lost = self.device.type == "cuda" and not self._alive()
                return call
            actual, returned, finding = _output(result, out)
            if turn == 0:
                call.actual, call.returned, call.finding, call.kernel_ms = actual, returned, finding, spent
            else:
                call.others.append(actual)
            if finding:
                return call
        return call

    def _judge(self, op: Any, request: dict, params: dict, inputs: Any, used: dict, arena: Arena, provider: Any, call: Call, phase: Phase) -> dict:
        phase("reference")
        begun = time.perf_counter()
        tensors = {name: tensor.to(self.device, copy=True) for name, tensor in inputs.tensors.items()}
        expected = assemble.reference(request["op"])(**tensors, **inputs.scalars, out=None, alloc=None)
        lengths = inputs.row_lengths.to(self.device)
        evidence = Evidence(params, inputs, tensors, used, arena, call.actual, expected, None, lengths, call.returned)
        reference_ms = (time.perf_counter() - begun) * 1e3
        phase("judge")
        begun = time.perf_counter()
        findings, row = [], {}
        unmet = premise(evidence)
        if "kv_cache" in tensors:
            model, origin = self._model(op, request, params, provider, phase)
            row["precision"] = f"{model.name} ({origin})"
            if call.actual is not None:
                bound = bounds.logits_bound(tensors, inputs.scalars, lengths, model, inputs.exact)
                evidence.bound = bounds.add_output_rounding(bound, expected, model)
        if call.finding:
            findings.append(call.finding)
        if call.actual is not None:
            findings += verdict.run_checks(evidence, op.checks(params))
            findings += _repeats(call, evidence)
        row.update(verdict.compose(findings, evidence))
        if unmet:
            row.update(verdict="invalid_case", message=unmet.message, also_failed=[])
            row.pop("check", None)
            if call.finding:
                row["message"] += f"; the kernel ended in: {call.finding.message}"
        elif call.unsupported is not None:
            row.update(verdict="unsupported", message=call.unsupported)
        elif call.actual is None and call.finding is None and not request.get("premise_only"):
            row.update(verdict="harness_error", message="the kernel was not called")
        elif not int(lengths.sum()) and row["verdict"] == "pass":
            row["message"] = "no position is promised: only padding, guards and inputs could have failed"
        row["premise"] = "fails" if unmet else "holds"
        row["timing"] = {"reference_ms": reference_ms, "judge_ms": (time.perf_counter() - begun) * 1e3}
        return row

    def _model(self, op: Any, request: dict[str, Any], params: dict[str, Any], provider: Any, phase: Phase) -> tuple[Any, str]:
        """The precision model of a case, and where it is from: given, probed, declared or assumed."""
        given = request.get("precision")
        if given == precision.PROBE:
            phase("kernel")
            found = probe(op, provider.function(request["op"]), params, self.device) if provider else None
            phase("judge")
            if found:
                return precision.parse(found), "probed"
        elif given:
            return precision.parse(given), "given"
        declared = provider.precision(request["op"], params, self.facts) if provider else None
        if declared:
            return precision.parse(declared), "declared"
        return precision.parse(precision.assumed(self.facts)), "assumed"

    def _synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _alive(self) -> bool:
        """Whether the device still answers after an error: a lost context fails every later call."""
        try:
            torch.zeros(1, device=self.device).sum().item()
            self._synchronize()
            return True
        except RuntimeError:
            return False


def _output(result: Any, out: Any) -> tuple[Any, bool, Finding | None]:
    """The tensor to judge; whether the kernel brought its own; what is wrong with its shape or dtype."""
    if result is None or result is out:
        return out, False, None
    if not isinstance(result, torch.Tensor):
        return None, False, Finding("wrong_shape", "shape", f"returned {type(result).__name__}, expected None or a tensor")
    if result.shape != out.shape or result.dtype != out.dtype:
        got, wanted = (f"{list(t.shape)} {t.dtype}" for t in (result, out))
        return None, False, Finding("wrong_shape", "shape", f"returned {got}, expected {wanted}")
    return result.to(out.device).contiguous(), result.data_ptr() != out.data_ptr(), None


def _repeats(call: Call, evidence: Evidence) -> list[Finding]:
    """Logits of every repeat hold the same bits; selections are free to order and to break ties, and are not compared."""
    if evidence.output != "logits":
        return []
    inside = evidence.inside()
    for turn, other in enumerate(call.others, start=2):
        differs = (other.view(torch.int32) != call.actual.view(torch.int32)) & inside
        count = int(differs.sum())
        if count:
            message = f"run {turn} of the same inputs differs from the first in {count} of {int(inside.sum())} elements"
            return [Finding("nondeterministic", "repeat", message, evidence.output, None, count, int(inside.sum()))]
    return []


def _crash(error: BaseException) -> Finding:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
    text = str(error).strip()
    return Finding("crash", "exception", f"{type(error).__name__}: {text[:2000]}{place}" if text else f"{type(error).__name__}{place}")


def _blank(name: str, message: str) -> dict[str, Any]:
    return {
        "verdict": name, "also_failed": [], "message": message, "metrics": {}, "trivial": [], "first_bad": None, "bad_count": 0,
        "element_count": 0, "timing": {"kernel_ms": None, "reference_ms": None, "judge_ms": None, "total_ms": None}, "premise": "unknown",
    }  # fmt: skip
