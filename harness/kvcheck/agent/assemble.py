"""Turns a provider's name into something to call: a built-in provider, a user's file, or an honest kernel with planted faults."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvcheck.agent import specs
from kvcheck.agent.protocol import Unsupported, parse_fault, parse_provider


class Provider:
    """One provider, bound to its variant, directory and device.

    Args:
        name: as the user wrote it.
        body: module or object whose attributes are op functions and hooks.
        ops: op functions that replace the body's, by op name (planted faults).
        honest: the provider without the faults, where there are any.
        piecewise: the same with each fault in the ops that know it, for pipelines.
    """

    def __init__(
        self,
        name: str,
        body: Any,
        ops: dict[str, Callable[..., Any]] | None = None,
        honest: Provider | None = None,
        piecewise: Provider | None = None,
    ):
        self.name = name
        self.body = body
        self.honest = honest
        self.piecewise = piecewise or self
        self._ops = ops or {}

    def function(self, op: str) -> Callable[..., Any]:
        """The provider's function of an op.

        Raises:
            Unsupported: it has none.
        """
        found = self._ops.get(op) or getattr(self.body, op, None)
        if found is None:
            raise Unsupported(f"{self.name} does not implement {op}")
        return found

    def has(self, op: str) -> bool:
        """Whether it has a function of an op; of planted faults, whether they change it."""
        return op in self._ops or getattr(self.body, op, None) is not None

    def hook(self, hook: str, *arguments: Any) -> Any:
        """What an optional hook answers; None where there is none."""
        found = getattr(self.body, hook, None)
        return found(*arguments) if callable(found) else None

    def describe(self, op: str) -> str:
        """What ran: the provider's own account, or the function's file and line."""
        said = self.hook("dispatch", op)
        if said:
            return said
        function = self.function(op)
        code = getattr(function, "__code__", None)
        return f"{Path(code.co_filename).name}:{code.co_firstlineno} {function.__name__}" if code else repr(function)

    def precision(self, op: str, params: dict[str, Any], device: dict[str, Any]) -> str | None:
        """The precision model that the provider declares, or None. A user's file may have PRECISION = {op: model} or a string."""
        said = self.hook("precision", op, params, device)
        declared = getattr(self.body, "PRECISION", None)
        if said is None and declared is not None:
            said = declared.get(op, declared.get("model")) if isinstance(declared, dict) else declared
        return said


def provider(name: str, device: Any) -> Provider:
    """Loads and binds a provider.

    Args:
        name: NAME, NAME:VARIANT, NAME@DIR, FILE.py, fault:NAME=VALUE+NAME or mutant:FILE:N.
        device: torch device.

    Raises:
        Unsupported: it cannot run here.
        LookupError: no such provider or fault.
    """
    if name.startswith("fault:"):
        return _faulty(name, device)
    if name.startswith("mutant:"):
        return Provider(name, importlib.import_module("kvcheck.agent.providers._mutants").Mutant(name.removeprefix("mutant:")))
    if name.endswith(".py"):
        return Provider(name, _user_file(Path(name)))
    base, variant, directory = parse_provider(name)
    if base not in specs.names("providers"):
        raise LookupError(f"no provider named {base!r}; nearest: {specs.nearest(base, specs.names('providers'))}")
    module = importlib.import_module(f"kvcheck.agent.providers.{base}")
    if hasattr(module, "bind"):
        return Provider(name, module.bind(variant, directory, device))
    if variant or directory:
        raise LookupError(f"provider {base} has no variants and takes no directory")
    return Provider(name, module)


def reference(op: str, naive: bool = False) -> Callable[..., Any]:
    """The reference of an op, found by name."""
    name = f"{op}_naive" if naive else op
    return getattr(importlib.import_module(f"kvcheck_references.{name}"), op)


def signature_problems(op: str, function: Callable[..., Any]) -> list[str]:
    """How a function's parameters differ from the op's reference; empty when they agree."""
    wanted, got = (list(inspect.signature(f).parameters) for f in (reference(op), function))
    if wanted == got:
        return []
    return [f"{op}: expected parameters {', '.join(wanted)}; got {', '.join(got)}"]


def _faulty(name: str, device: Any) -> Provider:
    planted = [parse_fault(part) for part in name.removeprefix("fault:").split("+")]
    modules = []
    for fault, _ in planted:
        if fault not in specs.names("faults"):
            raise LookupError(f"no fault named {fault!r}; nearest: {specs.nearest(fault, specs.names('faults'))}")
        modules.append(importlib.import_module(f"kvcheck.agent.faults.{fault}"))
    bases = {specs.load("faults", fault).data["base"] for fault, _ in planted}
    if len(bases) > 1:
        raise LookupError(f"{name}: faults of different kernels cannot be composed ({', '.join(sorted(bases))})")
    honest = provider(bases.pop(), device)
    whole, some = {}, {}
    for op in specs.names("ops"):
        known = [(m, value) for m, (fault, value) in zip(modules, planted, strict=True) if op in specs.load("faults", fault).data["ops"]]
        if known:
            function = honest.function(op)
            for module, value in known:
                function = module.plant(function, op, value)
            some[op] = function
            if len(known) == len(planted):
                whole[op] = function
    body = _FaultBody(honest, name)
    # One op wants every fault that is named; a pipeline plants each in the stages that know it.
    return Provider(name, body, whole, honest, Provider(name, body, some, honest))


class _FaultBody:
    """The hooks of the honest kernel under a fault, but none of its op functions: an op the fault does not know is unsupported."""

    def __init__(self, honest: Provider, name: str):
        self._honest, self._name = honest, name

    def dispatch(self, op: str) -> str:
        return f"{self._honest.describe(op)} with {self._name}"

    def precision(self, op: str, params: dict[str, Any], device: dict[str, Any]) -> str | None:
        return self._honest.precision(op, params, device)


def _user_file(path: Path) -> Any:
    """Imports a user's FILE.py; its folder is importable, and `Unsupported` is there without an import."""
    if not path.is_file():
        raise LookupError(f"no such provider file: {path}")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(f"kvcheck_user_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    module.Unsupported = Unsupported
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
