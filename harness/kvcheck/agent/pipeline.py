"""A case of several ops in a row: each stage on what the one before should have left, and all of them on what it did leave.

The first tells which stage is at fault, whatever came before it. The second tells how far the error travels: kernels follow kernels while
all is right; behind the first wrong stage the references go on, so that the difference at the end is of that stage alone.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

from kvcheck.agent import assemble
from kvcheck.agent.calling import Call
from kvcheck.agent.judging import referenced
from kvcheck.agent.protocol import NOT_JUDGED

Values = dict[tuple[str, str], Any]
FILLER = "torch_eager"
"""Who runs a stage that the provider has no kernel for."""

SHOWN = ("verdict", "check", "message", "first_bad", "precision", "dispatch", "relations")


def run(
    runner: Any,
    op: Any,
    request: dict[str, Any],
    params: dict[str, Any],
    stages: list[Any],
    provider: Any,
    made: Call,
    phase: Callable[[str], None],
) -> dict[str, Any]:
    """Judges one case of a pipeline.

    Args:
        runner: a `main.Runner`.
        op: the pipeline's module.
        request: a `case` message.
        params: resolved params.
        stages: the op's stages of the case.
        provider: the bound provider, or None.
        made: what came of loading it.
        phase: told the phase that begins.

    Returns:
        row: that of the first wrong stage, or of the last; `stages` has a line for each, `travel` says what reached the output.
    """
    provider = provider and provider.piecewise
    if provider and not any(provider.has(name) for name in op.SPEC["stages"]):
        made = Call(unsupported=f"{provider.name} has no kernel for any stage of {request['op']}")
        provider = None
    honest: Values = {}
    chained: Values = {}
    rows: list[dict[str, Any]] = []
    wrong: str | None = None
    lost: str | None = None
    for stage in stages:
        module = importlib.import_module(f"kvcheck.agent.ops.{stage.op}")
        message = {**request, "op": stage.op, "precision": None}
        of = _of(provider, stage.op, runner) if provider else None
        inputs = stage.build(honest)
        row, judged = runner.run_inputs(module, message, stage.params, inputs, of, made, phase)
        rows.append({"op": stage.op, "provider": getattr(of, "name", None), **row})
        honest.update({(stage.op, name): side[0].cpu() for name, side in judged.expected.items() if side[0] is not None})
        if row["verdict"] in NOT_JUDGED or not judged.expected:
            break
        if lost is None:
            try:
                follow = wrong is None and row["verdict"] == "pass"
                left = _follow(runner, module, message, stage, inputs, chained, of, judged, phase) if follow else None
                if left is None:
                    left = judged.actual if wrong is None else _reference(stage, chained)
                chained.update({(stage.op, name): value.cpu() for name, value in (left or {}).items()})
                lost = None if left else f"{stage.op} left nothing to go on with"
            except Exception as error:
                lost = f"{stage.op} cannot go on with it: {type(error).__name__}: {str(error)[:200]}"
        if wrong is None and row["verdict"] != "pass":
            wrong = stage.op
    return _row(request, params, op, rows, wrong, honest, chained, lost)


def _of(provider: Any, name: str, runner: Any) -> Any:
    """Who runs a stage: the provider, the honest kernel under its faults, or the filler."""
    if provider.has(name):
        return provider
    if provider.honest is not None and provider.honest.has(name):
        return provider.honest
    return assemble.provider(FILLER, runner.device)


def _follow(
    runner: Any, module: Any, message: dict[str, Any], stage: Any, inputs: Any, chained: Values, of: Any, judged: Any, phase: Any
) -> dict[str, Any] | None:
    """What the kernel leaves on what the kernels before it left; None where that is not right either."""
    if not chained:
        return judged.actual
    own = stage.build(chained)
    if own.fingerprint() == inputs.fingerprint():
        return judged.actual
    row, again = runner.run_inputs(module, {**message, "relations": [], "diagnose": False}, stage.params, own, of, Call(), phase)
    if row["verdict"] != "pass":
        raise RuntimeError(f"{row['verdict']} on what the kernels before it left: {row['message']}")
    return again.actual


def _reference(stage: Any, chained: Values) -> dict[str, Any]:
    """What the reference leaves on what a wrong stage left."""
    inputs = stage.build(chained)
    return referenced(stage.op, inputs, inputs.tensors, inputs.initial)


def _row(
    request: dict[str, Any],
    params: dict[str, Any],
    op: Any,
    rows: list[dict[str, Any]],
    wrong: str | None,
    honest: Values,
    chained: Values,
    lost: str | None,
) -> dict[str, Any]:
    """The row of the whole case."""
    head = next((row for row in rows if row["verdict"] != "pass"), rows[-1])
    row = {key: value for key, value in head.items() if key not in ("op", "provider")}
    row["params"] = params
    row["input_fingerprint"] = rows[0]["input_fingerprint"]
    row["stages"] = [_stage(each) for each in rows]
    row["metrics"] = _metrics(rows, head)
    tightest = max(rows, key=lambda each: (each.get("metrics") or {}).get("max_bound_ratio") or -1)
    row["precision"] = f"{tightest['op']} {tightest['precision']}" if tightest.get("precision") else None
    row["dispatch"] = "; ".join(str(each["dispatch"]) for each in rows if each.get("dispatch"))
    row["timing"] = {
        key: sum(each["timing"][key] or 0 for each in rows if each.get("timing")) for key in ("kernel_ms", "reference_ms", "judge_ms")
    }
    row["first_wrong_stage"] = wrong
    row["travel"] = _travel(op.SPEC["stages"][-1], honest, chained, lost)
    if wrong:
        row["message"] = f"first wrong stage: {wrong}: {head['message']}; {row['travel']['sentence']}"
    elif head["verdict"] in NOT_JUDGED:
        row["message"] = f"stage {head['op']}: {head['message']}"
    elif lost:
        row.update(verdict="metamorphic", check="chain", message=f"every stage is right alone, but {lost}")
    return row


def _stage(row: dict[str, Any]) -> dict[str, Any]:
    metrics = row.get("metrics") or {}
    return {
        "op": row["op"],
        "provider": row["provider"],
        **{key: row[key] for key in SHOWN if row.get(key) is not None},
        "max_bound_ratio": metrics.get("max_bound_ratio"),
        "kernel_ms": (row.get("timing") or {}).get("kernel_ms"),
    }


def _metrics(rows: list[dict[str, Any]], head: dict[str, Any]) -> dict[str, Any]:
    """The deciding stage's numbers, with the largest ratio and the selection's numbers of all."""
    found = dict(head.get("metrics") or {})
    ratios = [ratio for row in rows if (ratio := (row.get("metrics") or {}).get("max_bound_ratio")) is not None]
    if ratios:
        found["max_bound_ratio"] = max(ratios)
    for row in rows:
        for name, value in (row.get("metrics") or {}).items():
            if name.startswith(("topk_", "relation_")):
                found.setdefault(name, value)
    return found


def _travel(last: str, honest: Values, chained: Values, lost: str | None) -> dict[str, Any]:
    """How far the attention output of the chain is from that of the references."""
    sides = [values.get((last, "out")) for values in (honest, chained)]
    if any(side is None for side in sides):
        return {"max_abs_diff": None, "largest": None, "sentence": lost or "it was not followed to the end"}
    expected, actual = (side.double().flatten() for side in sides)
    both = torch.isfinite(expected) & torch.isfinite(actual)
    difference = float((expected - actual)[both].abs().max()) if bool(both.any()) else 0.0
    largest = float(expected[both].abs().max()) if bool(both.any()) else 0.0
    broken = int((torch.isfinite(expected) != torch.isfinite(actual)).sum())
    sentence = f"at the end of the path the attention output is off by up to {difference:.3g}, its largest value being {largest:.3g}"
    if broken:
        sentence += f", and {broken} of its elements are not finite"
    return {"max_abs_diff": difference, "largest": largest, "sentence": sentence}
