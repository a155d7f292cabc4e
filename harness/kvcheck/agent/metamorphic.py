"""Relations of a case that passed: transformed calls of the same kernel, and whether their outputs agree with the case's own.

Needs no oracle for values. Where the mathematics leaves sums another order, the demand is the sum of both certified bounds; elsewhere bits.
A kernel that does not give the same bits twice is `nondeterministic`, whichever relation it was met in.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from kvcheck.agent import precision, specs
from kvcheck.agent.calling import Call
from kvcheck.agent.inputs import pitch
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.judge import expected as expectations
from kvcheck.agent.judge.evidence import Evidence, first
from kvcheck.agent.judge.exact import bits
from kvcheck.agent.relations import Variant

REACH = {"cpu": 64 << 20, "cuda": 5 << 29}
"""Bytes that a pool may have whose top is to be reached; a quarter of what is free on a GPU at most."""

EMULATED_REACH = 1 << 20
NAMED = 8
"""Rows that a message names."""

Again = Callable[[str, Any, dict[str, Any]], tuple[Call, Any, dict[str, Any]]]


@dataclass(frozen=True)
class Case:
    """A case that passed, as its relations need it.

    Attributes:
        op: name of the op.
        params: resolved params.
        inputs: the call.
        expected: value and bound of every output, by name.
        actual: what the kernel left, by name.
        provider: the bound provider.
        facts: the device part of the environment.
        device: torch device.
        given: the precision model that the user names, or None.
        emulated: whether the device is.
        again: calls the provider: (op, inputs, params) to (what came of it, the arena, the tensors that were used).
    """

    op: str
    params: dict[str, Any]
    inputs: Any
    expected: dict[str, tuple[Any, Any]]
    actual: dict[str, Any]
    provider: Any
    facts: dict[str, Any]
    device: Any
    given: str | None
    emulated: bool
    again: Again


def check(case: Case, names: list[str], seed: int) -> dict[str, Any]:
    """What becomes of a row that passed.

    Args:
        case: the case.
        names: relations to check; those that the op does not have are left out.
        seed: of the case.

    Returns:
        changes: `relations`, a line for each; `metrics`, differing elements of each that was checked; verdict and message of the first
            that does not hold.
    """
    known = specs.relations(case.op)
    lines: list[dict[str, Any]] = []
    changes: dict[str, Any] = {"relations": lines, "metrics": {}}
    for name in [each for each in known if each in names]:
        line, failure = _relation(case, name, Generator(seed))
        lines.append(line)
        if line["calls"]:
            changes["metrics"][f"relation_{name}"] = line["differing"]
        if failure and "verdict" not in changes:
            changes.update(failure)
        if failure and failure.get("premise") == "unknown":
            break
    return changes


def _relation(case: Case, name: str, generator: Any) -> tuple[dict[str, Any], dict[str, Any] | None]:
    line = {"name": name, "calls": 0, "differing": 0, "notes": []}
    module = importlib.import_module(f"kvcheck.agent.relations.{name}")
    found = module.variants(case.op, case.inputs, generator, _reach(case))
    if not found:
        line["notes"].append("the case has nothing to transform")
    for variant in found:
        call, arena, used = case.again(variant.op or case.op, variant.inputs, {**case.params, **variant.params, "launch": "eager"})
        if call.unsupported is not None:
            line["notes"].append(f"{variant.what}: refused: {call.unsupported}")
            continue
        line["calls"] += 1
        failure = _broken(variant, call, arena, used) or _differs(case, variant, call.actual)
        if failure:
            line["differing"] += failure["bad_count"]
            if name != "repeat" and "relations differ" in failure:
                failure = _unstable(case) or failure
            elif name == "repeat":
                failure["verdict"] = "nondeterministic"
            failure.pop("relations differ", None)
            return line, {"verdict": "metamorphic", "check": name, "also_failed": [], **failure}
    return line, None


def _broken(variant: Variant, call: Call, arena: Any, used: dict[str, Any]) -> dict[str, Any] | None:
    """What is wrong with a transformed call whatever its outputs hold."""
    if call.finding:
        row = {"message": f"{variant.what}: ended in {call.finding.verdict}: {call.finding.message}", "bad_count": 1}
        return {**row, "output": call.finding.output, **({"verdict": "crash", "premise": "unknown"} if call.context_lost else {})}
    hits = arena.guard_hits()
    if hits:
        name, count, offset = hits[0]
        return {"message": f"{variant.what}: {count} words beside {name} were overwritten, first at {offset}", "bad_count": count}
    for name, tensor in used.items():
        if not torch.equal(pitch.octets(tensor).cpu(), pitch.octets(variant.inputs.tensors[name]).cpu()):
            return {"message": f"{variant.what}: {name} was changed", "bad_count": 1, "output": name}
    return None


def _differs(case: Case, variant: Variant, outputs: dict[str, Any]) -> dict[str, Any] | None:
    """Where the outputs of a transformed call do not agree with the case's."""
    mapped = variant.back(outputs)
    bounds = _bounds(case, variant) if variant.within_bound else {}
    withheld = case.provider.hook("withheld", case.op, case.params) or ()
    for name, (value, mask) in mapped.items():
        if name in withheld:
            continue
        ours, theirs = (_canonical(case, name, side.cpu()) for side in (case.actual[name], value))
        mask = mask.cpu()
        apart = bits(ours) != bits(theirs)
        limit = bounds.get(name)
        if limit is not None:
            a, b = ours.double(), theirs.double()
            apart &= ~((a == b) | (a.isnan() & b.isnan())) & ~((a - b).abs() <= limit)
        apart &= mask
        count, total = int(apart.sum()), int(mask.sum())
        if count:
            return _told(case, variant, name, apart, (ours, theirs, limit), total)
    return None


def _told(case: Case, variant: Variant, name: str, apart: Any, sides: tuple[Any, Any, Any], total: int) -> dict[str, Any]:
    ours, theirs, limit = sides
    count, index = int(apart.sum()), first(apart)
    rows = apart.flatten(1).any(1).nonzero().flatten().tolist() if apart.dim() > 1 else apart.nonzero().flatten().tolist()
    shown = ", ".join(map(str, rows[:NAMED])) + (f", ... ({len(rows)} in all)" if len(rows) > NAMED else "")
    bound = None if limit is None else float(limit[index])
    evidence = Evidence(name, case.params, case.inputs, {}, {}, None, theirs, ours, None, case.inputs.row_lengths)
    where = evidence.where(index, ours[index].item(), theirs[index].item(), bound)
    how = "differ in their bits" if limit is None else "differ by more than both bounds"
    axis = (case.inputs.axes.get(name) or ("row",))[0]
    message = (
        f"{variant.what}: {count} of {total} elements of {name} {how}, {axis} {shown}; "
        f"first at {list(index)}: {ours[index].item()} in the case, {theirs[index].item()} so"
    )
    told = {"message": message, "output": name, "first_bad": where, "bad_count": count, "element_count": total}
    return told if limit is not None else {**told, "relations differ": True}


def _unstable(case: Case) -> dict[str, Any] | None:
    """Whether the case's own call gives other bits too: then nothing was transformed that mattered."""
    plain = importlib.import_module("kvcheck.agent.relations.repeat").variants(case.op, case.inputs, None, 0)[0]
    call, _, _ = case.again(case.op, case.inputs, {**case.params, "launch": "eager"})
    found = _differs(case, plain, call.actual) if call.actual is not None and not call.finding else None
    if found:
        found.pop("relations differ", None)
        return {**found, "verdict": "nondeterministic", "check": "repeat"}
    return None


def _canonical(case: Case, name: str, value: Any) -> Any:
    """An output in a form that is the same for every right answer: of a selection, the sorted logits that were selected."""
    if case.op != "topk_per_row":
        return value
    logits = case.inputs.tensors["logits"]
    inside = (value >= 0) & (value < logits.shape[1])
    chosen = logits.gather(1, value.long().clamp(0, logits.shape[1] - 1)) + 0.0
    return torch.where(inside, chosen, -torch.inf).sort(1, descending=True).values


def _bounds(case: Case, variant: Variant) -> dict[str, Any]:
    """The sum of both certified bounds of every output that has one."""
    op = variant.op or case.op
    own = {name: bound for name, (_, bound) in case.expected.items() if bound is not None}
    if not own:
        return {}
    declared = case.provider.precision(op, {**case.params, **variant.params}, case.facts)
    given = case.given if case.given and case.given != precision.PROBE else None
    model = precision.parse(given or declared or precision.assumed(case.facts, op))
    tensors = {name: pitch.copied(tensor, case.device) for name, tensor in variant.inputs.tensors.items()}
    sides = importlib.import_module(f"{expectations.__name__}.{op}").expected(variant.inputs, tensors, model)
    mapped = variant.back({name: bound for name, (_, bound) in sides.items()})
    return {name: bound.cpu() + mapped[name][0].cpu() for name, bound in own.items() if name in mapped}


def _reach(case: Case) -> int:
    if case.emulated:
        return EMULATED_REACH
    if case.device.type != "cuda":
        return REACH["cpu"]
    return min(REACH["cuda"], torch.cuda.mem_get_info(case.device)[0] // 4)
