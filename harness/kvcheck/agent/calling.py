"""One call of a kernel: outputs in guarded memory, compilation off the clock, and what came of it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from kvcheck.agent import graphs
from kvcheck.agent.compile_clock import CompileClock
from kvcheck.agent.inputs.arena import Arena
from kvcheck.agent.inputs.bundle import Inputs
from kvcheck.agent.judge.evidence import Finding
from kvcheck.agent.protocol import is_unsupported


@dataclass
class Call:
    """What came of calling the kernel.

    Attributes:
        actual: outputs of the first call by name, None when there are none to look at.
        returned: outputs that the kernel brought itself.
        finding: what is wrong whatever the outputs hold.
        raised: type of the exception that the finding is of.
        unsupported: why the provider refused.
        load_error: why the provider could not be loaded.
        context_lost: the device answers no more.
        kernel_ms: time of the first call.
        others: outputs of further calls.
        eager: outputs of an eager call, where the first was a graph's replay.
        seen: rows of the emulated device's sanitizer.
        later: findings that come after the checks of the outputs in the house's order.
    """

    actual: dict[str, Any] | None = None
    returned: frozenset[str] = frozenset()
    finding: Finding | None = None
    raised: type[BaseException] | None = None
    unsupported: str | None = None
    load_error: str | None = None
    context_lost: bool = False
    kernel_ms: float | None = None
    others: list[dict[str, Any]] = field(default_factory=list)
    seen: list[dict[str, Any]] = field(default_factory=list)
    eager: dict[str, Any] | None = None
    later: list[Finding] = field(default_factory=list)


def call(
    provider: Any,
    request: dict[str, Any],
    inputs: Inputs,
    used: dict[str, Any],
    arena: Arena,
    phase: Callable[[str], None],
    emulated: Any = None,
) -> Call:
    """Calls the kernel of a case, as often as the request says.

    Args:
        provider: the bound provider.
        request: a `case` message.
        inputs: the call.
        used: the kernel's copy of the tensors.
        arena: guarded memory for the outputs.
        phase: told "compile" and "kernel".
        emulated: an `emulated.EmulatedDevice` that takes the launches, or None.
    """
    found = Call()
    for turn in range(max(int(request.get("repeat") or 1), 1)):
        outputs = {name: arena.output(name, shape, dtype, inputs.initial.get(name)) for name, (shape, dtype) in inputs.outputs.items()}
        given = {"out": next(iter(outputs.values()))} if len(outputs) == 1 else outputs
        clock = CompileClock(phase)
        try:
            provider.body.run_unsupported = bool(request.get("run_unsupported"))
            function = provider.function(request["op"])
            with clock:
                begun = time.perf_counter()
                if request["params"].get("launch") == "graph":
                    result = graphs.replay(function, used, inputs.scalars, given, arena.alloc, arena.device)
                else:
                    result = function(**used, **inputs.scalars, **given, alloc=arena.alloc)
                _synchronize(arena.device)
                spent = (time.perf_counter() - begun - clock.seconds) * 1e3
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            _failed(found, error, arena.device, emulated)
            return found
        actual, returned, finding = _outputs(result, outputs)
        if emulated:
            found.seen = emulated.rows()
            early, found.later = emulated.findings()
            finding = finding or early
        if turn == 0 and request["params"].get("launch") == "graph" and actual and not finding:
            found.eager = _eager(function, inputs, arena)
        if turn == 0:
            found.actual, found.returned, found.kernel_ms = actual, returned, spent
        else:
            found.others.append(actual)
        if finding:
            found.finding = finding
            return found
    return found


def crash(error: BaseException) -> Finding:
    """The finding of an exception, with the place it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
    text = str(error).strip()
    return Finding("crash", "exception", f"{type(error).__name__}: {text[:2000]}{place}" if text else f"{type(error).__name__}{place}")


def _eager(function: Callable[..., Any], inputs: Inputs, arena: Arena) -> dict[str, Any] | None:
    """Outputs of the same call without a graph."""
    outputs = {name: arena.output(name, shape, dtype, inputs.initial.get(name)) for name, (shape, dtype) in inputs.outputs.items()}
    given = {"out": next(iter(outputs.values()))} if len(outputs) == 1 else outputs
    tensors = {name: tensor.to(arena.device, copy=True) for name, tensor in inputs.tensors.items()}
    result = function(**tensors, **inputs.scalars, **given, alloc=arena.alloc)
    _synchronize(arena.device)
    return _outputs(result, outputs)[0]


def _failed(found: Call, error: BaseException, device: Any, emulated: Any) -> None:
    """Notes what an exception out of a kernel means."""
    meant = emulated.failure(error) if emulated else None
    if emulated:
        found.seen = emulated.rows()
    if isinstance(meant, str):
        found.unsupported = meant
    elif meant:
        found.finding = meant
    elif is_unsupported(error):
        found.unsupported = str(error)
    else:
        found.finding, found.raised = crash(error), type(error)
        found.context_lost = device.type == "cuda" and not _alive(device)


def _outputs(result: Any, outputs: dict[str, Any]) -> tuple[dict[str, Any] | None, frozenset[str], Finding | None]:
    """The tensors to judge; which of them the kernel brought itself; what is wrong with a shape or dtype."""
    if result is None:
        return outputs, frozenset(), None
    given = _named(result, outputs)
    if given is None:
        wanted = "None or a tensor" if len(outputs) == 1 else f"None or tensors {', '.join(outputs)}"
        return None, frozenset(), Finding("wrong_shape", "shape", f"returned {type(result).__name__}, expected {wanted}")
    actual, brought = {}, set()
    for name, out in outputs.items():
        tensor = out if given[name] is None else given[name]
        if tensor.shape != out.shape or tensor.dtype != out.dtype:
            got, wanted = (f"{list(t.shape)} {t.dtype}" for t in (tensor, out))
            what = "" if len(outputs) == 1 else f" for {name}"
            return None, frozenset(), Finding("wrong_shape", "shape", f"returned {got}{what}, expected {wanted}", name)
        actual[name] = tensor.to(out.device).contiguous()
        if tensor.data_ptr() != out.data_ptr():
            brought.add(name)
    return actual, frozenset(brought), None


def _named(result: Any, outputs: dict[str, Any]) -> dict[str, Any] | None:
    """What a kernel returned, by output; None where it is not that."""
    if isinstance(result, torch.Tensor) and len(outputs) == 1:
        result = (result,)
    if isinstance(result, (tuple, list)) and len(result) == len(outputs):
        result = dict(zip(outputs, result, strict=True))
    right = isinstance(result, dict) and set(result) <= set(outputs)
    if not right or not all(value is None or isinstance(value, torch.Tensor) for value in result.values()):
        return None
    return {name: result.get(name) for name in outputs}


def _synchronize(device: Any) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _alive(device: Any) -> bool:
    """Whether the device still answers after an error: a lost context fails every later call."""
    try:
        torch.zeros(1, device=device).sum().item()
        _synchronize(device)
        return True
    except RuntimeError:
        return False
