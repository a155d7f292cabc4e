"""What one call left, and how much of it another call reproduces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from kvcheck.agent.inputs import pitch
from kvcheck.agent.inputs.arena import SENTINEL, is_sentinel
from kvcheck.agent.inputs.bundle import Inputs
from kvcheck.agent.judge.exact import bits


@dataclass(frozen=True)
class Outcome:
    """What a call left, on the CPU.

    Attributes:
        outputs: by name.
        guards: whether guard words were overwritten; None where nobody could see.
        mutated: names of the inputs that were changed.
        returned: outputs that the kernel brought itself, so that what it left untouched is not known.
    """

    outputs: dict[str, Any]
    guards: bool | None
    mutated: frozenset[str]
    returned: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Promise:
    """What is promised of one output.

    Attributes:
        inside: bool of its shape. Promised elements.
        expected: float64 or integer of its shape, or None where nothing is expected.
        bound: float64 of its shape; None: exact.
        before: what it held before the call, where it is changed in place; else None.
        ends: whether -inf or nothing may stand where nothing is promised.
        unordered: whether the order within a row means nothing (positions of a top-k).
    """

    inside: Any
    expected: Any
    bound: Any
    before: Any
    ends: bool
    unordered: bool


@dataclass(frozen=True)
class Agreement:
    """How far two outcomes agree.

    Attributes:
        same: elements that agree, and memory that was treated alike.
        of: elements that are promised, or that one of the two wrote where nothing is.
        wrong: by output, bool of its shape: elements that differ.
    """

    same: int
    of: int
    wrong: dict[str, Any]

    @property
    def whole(self) -> bool:
        """Whether nothing differs."""
        return self.same == self.of


def outcome(inputs: Inputs, used: dict[str, Any], arena: Any, made: Any) -> Outcome:
    """What a call left.

    Args:
        inputs: the call; its tensors were never seen by the kernel.
        used: the kernel's copy of the tensors.
        arena: guarded memory of the call.
        made: a `calling.Call` that has outputs.
    """
    outputs = {name: pitch.copied(tensor, "cpu") for name, tensor in made.actual.items()}
    changed = [name for name, tensor in inputs.tensors.items() if not _unchanged(tensor, used[name])]
    return Outcome(outputs, None if made.returned else bool(arena.guard_hits()), frozenset(changed), made.returned)


def agree(one: Outcome, other: Outcome, promises: dict[str, Promise]) -> Agreement:
    """Compares what two calls left.

    An element of an output with a bound agrees where both are within it of one number: twice the bound, or the same part of the value
    where a fault makes it larger. Elsewhere it is the same bits. Where nothing is promised, both wrote a number or neither did.
    """
    same, total, wrong = 0, 0, {}
    for name, promise in promises.items():
        relevant, alike = _output(one, other, name, promise)
        same, total = same + int((relevant & alike).sum()), total + int(relevant.sum())
        wrong[name] = relevant & ~alike
    behaviours = [one.mutated == other.mutated]
    if one.guards is not None and other.guards is not None:
        behaviours.append(one.guards == other.guards)
    differing = behaviours.count(False)
    return Agreement(same, total + differing, wrong)


def _output(one: Outcome, other: Outcome, name: str, promise: Promise) -> tuple[Any, Any]:
    """Which elements count, and which of them agree."""
    left, right = one.outputs[name], other.outputs[name]
    if promise.unordered:
        left, right = left.sort(-1).values, right.sort(-1).values
    inside = promise.inside
    if promise.before is not None:
        before = bits(promise.before)
        alike = bits(left) == bits(right)
        return inside | (bits(left) != before) | (bits(right) != before), alike
    untouched = [_untouched(tensor, name in side.returned) for tensor, side in ((left, one), (right, other))]
    if promise.bound is None:
        return inside, torch.where(untouched[0] | untouched[1], untouched[0] & untouched[1], bits(left) == bits(right))
    values = [left.double(), right.double()]
    finite = [torch.isfinite(value) for value in values]
    tolerance = torch.maximum(2 * promise.bound, 2 * _part(promise) * torch.maximum(values[0].abs(), values[1].abs()))
    near = finite[0] & finite[1] & ((values[0] - values[1]).abs() <= tolerance)
    odd = ~finite[0] & ~finite[1] & ((values[0] == values[1]) | (values[0].isnan() & values[1].isnan()))
    alike = torch.where(untouched[0] | untouched[1], untouched[0] & untouched[1], near | odd | (values[0] == values[1]))
    if not promise.ends:
        return inside, alike
    stray = [~inside & ~mask & (value != -torch.inf) for mask, value in zip(untouched, values, strict=True)]
    kind = stray[0] & stray[1] & (finite[0] == finite[1])
    return inside | stray[0] | stray[1], torch.where(inside, alike, kind)


def _part(promise: Promise) -> float:
    """The bound as a part of the value, over the middle of the promised elements."""
    known = promise.inside & torch.isfinite(promise.expected) & (promise.expected != 0) & torch.isfinite(promise.bound)
    if not bool(known.any()):
        return 0.0
    return float((promise.bound[known] / promise.expected[known].abs()).median())


def _untouched(tensor: Any, returned: bool) -> Any:
    if returned or str(tensor.dtype).removeprefix("torch.") not in SENTINEL:
        return torch.zeros(tensor.shape, dtype=torch.bool)
    return is_sentinel(tensor)


def _unchanged(before: Any, after: Any) -> bool:
    if after.shape != before.shape or after.dtype != before.dtype or after.stride() != before.stride():
        return False
    return torch.equal(pitch.octets(before), pitch.octets(after).cpu())
