"""One case from inputs to row: build, call the kernel, call the reference, judge."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable
from typing import Any

import torch

from kvcheck.agent import assemble, metamorphic, pipeline, specs
from kvcheck.agent.calling import Call, call, crash
from kvcheck.agent.diagnosis.diagnose import Judged as Failing
from kvcheck.agent.diagnosis.diagnose import diagnose
from kvcheck.agent.inputs import pitch
from kvcheck.agent.inputs.arena import Arena
from kvcheck.agent.inputs.bundle import Inputs
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.judge.compared import compared
from kvcheck.agent.judging import Judged, Judgement
from kvcheck.agent.protocol import failed, is_unsupported

Phase = Callable[[str], None]


class Runner:
    """Runs cases on one device; providers are loaded once.

    Args:
        device: torch device.
        facts: the device part of the environment: type, name, arch, interpreted.
        emulated: an `emulated.EmulatedDevice` that takes the launches, or None.
    """

    def __init__(self, device: Any, facts: dict[str, Any], emulated: Any = None):
        self.device = torch.device(device)
        self.facts = {"interpreted": self.device.type == "cpu", **facts}
        self.emulated = emulated
        self._providers: dict[str, assemble.Provider] = {}

    def run_case(self, request: dict[str, Any], phase: Phase) -> dict[str, Any]:
        """Judges one case.

        Args:
            request: a `case` message: op, provider, params, seed, and optionally precision, repeat, run_unsupported, premise_only,
                diagnose (with diagnose_s, and limit_s, the case's own).
            phase: told the phase that begins.

        Returns:
            row: the agent's part of a `cases` row, and `premise`: "holds", "fails" or "unknown" (the device context was lost).
        """
        started = time.perf_counter()
        problems = specs.check_params(request["op"], request["params"])
        if problems:
            return _blank("harness_error", "the case does not fit the op: " + "; ".join(map(str, problems)))
        provider, made = None, Call()
        if not request.get("premise_only"):
            phase("load")
            provider, made = self._load(request["provider"])
            if made.load_error:
                return _blank("harness_error", made.load_error)
        phase("inputs")
        params = self._resolve(request["params"])
        op = importlib.import_module(f"kvcheck.agent.ops.{request['op']}")
        generator = Generator(request["seed"])
        try:  # a ValueError of the inputs alone says that the case cannot be
            built = list(op.stages(params, generator)) if "stages" in op.SPEC else op.make_inputs(params, generator)
        except ValueError as error:
            return {**_blank("invalid_case", str(error)), "params": params, "premise": "fails"}
        if isinstance(built, list):
            row = pipeline.run(self, op, request, params, built, provider, made, phase)
        else:
            row, _ = self.run_inputs(op, request, params, built, provider, made, phase)
        row["timing"]["total_ms"] = (time.perf_counter() - started) * 1e3
        return row

    def run_inputs(
        self, op: Any, request: dict[str, Any], params: dict[str, Any], inputs: Inputs, provider: Any, made: Call, phase: Phase
    ) -> tuple[dict[str, Any], Judged]:
        """Calls the kernel of one op on given inputs, and judges it.

        Args:
            op: the op's module.
            request: a `case` message of that op.
            params: resolved params.
            inputs: the call.
            provider: the bound provider, or None where it refused or is not wanted.
            made: what came of loading it.
            phase: told the phase that begins.

        Returns:
            row: as `run_case`.
            judged: both sides of every output.
        """
        begun = time.perf_counter()
        arena, used = self._memory(inputs)
        row = {"params": params, "input_fingerprint": inputs.fingerprint()}
        if provider:
            with self._installed():
                phase("kernel")
                made = call(provider, request, inputs, used, arena, phase, self.emulated)
                row["provider_version"] = provider.hook("version")
                row["dispatch"] = self._dispatch(provider, request["op"], made)
        if made.context_lost:
            return {**_blank(made.finding.verdict, made.finding.message), **row, "premise": "unknown"}, Judged({}, made.actual)
        judgement = Judgement(op, request, params, inputs, provider, self.device, self.facts, phase, self._installed)
        row.update(judgement.judge(used, arena, made))
        if request.get("relations") and row["verdict"] == "pass" and made.actual is not None and not inputs.refusal:
            self._relate(request, params, inputs, provider, judgement.expected, made.actual, row, phase)
        if self.emulated:
            row["findings"] = made.seen
        row["timing"]["kernel_ms"] = made.kernel_ms
        if request.get("compare"):
            row["compared"] = compared(request["op"], params, inputs, judgement.expected, made.actual)
        if request.get("diagnose") and failed(row["verdict"]) and "relations" not in row:
            withheld = provider.hook("withheld", request["op"], params) or ()
            sides = {name: side for name, side in judgement.expected.items() if name not in withheld}
            case = Failing(op, request, params, inputs, used, arena, made, sides, time.perf_counter() - begun)
            row["diagnosis"] = diagnose(case, lambda values: self._again(op, case, provider, values, phase))
        return row, Judged(judgement.expected, made.actual)

    def _memory(self, inputs: Inputs) -> tuple[Arena, dict[str, Any]]:
        """Guarded memory for the outputs of a call, and the kernel's copy of its tensors."""
        arena = Arena(self.device)
        used = {name: pitch.copied(tensor, self.device) for name, tensor in inputs.tensors.items()}
        if self.emulated:
            arena.untouched = self.emulated.device.poison
            self.emulated.begin(used)
        return arena, used

    def _relate(
        self,
        request: dict[str, Any],
        params: dict[str, Any],
        inputs: Inputs,
        provider: Any,
        expected: Any,
        actual: Any,
        row: Any,
        phase: Phase,
    ) -> None:
        """Checks the relations that a request names, on a case that passed."""

        def again(op: str, changed: Inputs, values: dict[str, Any]) -> tuple[Call, Arena, dict[str, Any]]:
            arena, used = self._memory(changed)
            message = {**request, "op": op, "params": values, "repeat": 1}
            of = provider if provider.has(op) or provider.honest is None else provider.honest
            with self._installed():
                phase("kernel")
                made = call(of, message, changed, used, arena, phase, self.emulated)
            phase("judge")
            return made, arena, used

        case = metamorphic.Case(
            request["op"],
            params,
            inputs,
            expected,
            actual,
            provider,
            self.facts,
            self.device,
            request.get("precision"),
            bool(self.emulated),
            again,
        )
        changes = metamorphic.check(case, request["relations"], request["seed"])
        row["metrics"] = {**row["metrics"], **changes.pop("metrics")}
        row.update(changes)

    def doctor(self) -> list[dict[str, Any]]:
        """Which providers can run here: name, available, reason, remedy, ops, problems (signatures that differ from the op's)."""
        rows = []
        for name in specs.names("providers"):
            data = specs.load("providers", name).data
            row = {"name": name, "ops": data["ops"], "available": True, "reason": None, "remedy": data.get("remedy"), "problems": []}
            try:
                with self._installed():
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
                with self._installed():
                    self._providers[name] = assemble.provider(name, self.device)
            return self._providers[name], Call()
        except Exception as error:
            if is_unsupported(error):
                return None, Call(unsupported=str(error))
            return None, Call(load_error=f"provider {name} did not load: {crash(error).message}")

    def _again(self, op: Any, case: Failing, provider: Any, values: str, phase: Phase) -> tuple[Inputs, Call] | None:
        """The kernel once more, on other `values` of the same case; None where the inputs are not the case's own."""
        params = {**case.params, "values": values}
        known = {name: params.get(name) for name in specs.axes(case.request["op"])}
        own = op.make_inputs(case.params, Generator(case.request["seed"])).fingerprint() == case.inputs.fingerprint()
        if not own or specs.check_params(case.request["op"], known):
            return None
        inputs = op.make_inputs(params, Generator(case.request["seed"]))
        arena, used = self._memory(inputs)
        with self._installed():
            made = call(provider, {**case.request, "repeat": 1, "params": params}, inputs, used, arena, phase, self.emulated)
        phase("judge")
        return inputs, made

    def _resolve(self, params: dict[str, Any]) -> dict[str, Any]:
        params = dict(params)
        if params.get("kv_dtype") == "auto":
            params["kv_dtype"] = "e4m3fnuz" if str(self.facts.get("arch", "")).startswith("gfx94") else "e4m3fn"
        if params.get("poison") == "auto":
            params["poison"] = "finite_beacon" if self.facts["interpreted"] else "nan"
        return params

    def _dispatch(self, provider: Any, op: str, made: Call) -> str | None:
        try:
            said = provider.describe(op)
        except Exception:
            return None
        return said + ("; the kernel returned its own tensor, so guards could not see its stores" if made.returned else "")

    def _installed(self) -> Any:
        """While inside, launches go where the cases run."""
        return self.emulated.installed() if self.emulated else contextlib.nullcontext()


def _blank(name: str, message: str) -> dict[str, Any]:
    return {
        "verdict": name, "also_failed": [], "message": message, "metrics": {}, "trivial": [], "first_bad": None, "bad_count": 0,
        "element_count": 0, "timing": {"kernel_ms": None, "reference_ms": None, "judge_ms": None, "total_ms": None}, "premise": "unknown",
    }  # fmt: skip
