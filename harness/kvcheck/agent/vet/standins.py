"""Modules by the names that scripts import: the installed one with its entry points watched, or one that holds nothing else."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

from kvcheck.agent.vet.entries import ENTRIES, PACKAGES

Wrap = Callable[[str, "Callable[..., Any] | None"], Callable[..., Any]]
"""(name of an entry point, the real one or None) -> what the script gets."""


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """First on the meta path while a script runs.

    Args:
        wrap: makes what the script calls.
        real: whether the installed packages are used; else stand-ins take their place, installed or not.
    """

    def __init__(self, wrap: Wrap, real: bool) -> None:
        self._wrap, self._real = wrap, real
        self._loaders: dict[str, Any] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec of a module that scripts may name, None for all others."""
        if name.partition(".")[0] not in PACKAGES:
            return None
        if not self._real:
            if not any(f"{module}.".startswith(f"{name}.") for entry in ENTRIES.values() for module in entry["modules"]):
                raise ModuleNotFoundError(f"kvcheck vet has no stand-in for {name}, and runs no kernel package without a GPU", name=name)
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        if not any(name in entry["modules"] for entry in ENTRIES.values()):
            return None
        spec = next((s for f in sys.meta_path if f is not self and (s := f.find_spec(name, path, target))), None)
        if spec is None or spec.loader is None:
            return spec
        self._loaders[name], spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: Any) -> types.ModuleType | None:
        """The real loader's module, or a stand-in."""
        if spec.name in self._loaders:
            return self._loaders[spec.name].create_module(spec)
        return types.ModuleType(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Runs the real module, then puts the watched entry points in their places."""
        name = module.__name__
        if name in self._loaders:
            self._loaders[name].exec_module(module)
        for entry, facts in ENTRIES.items():
            if name in facts["modules"]:
                found = module.__dict__.get(entry)
                if not self._real or callable(found):
                    setattr(module, entry, self._wrap(entry, found))


def order_of(function: Callable[..., Any] | None) -> tuple[str, ...] | None:
    """Parameter names of the real function; None without one."""
    return None if function is None else tuple(inspect.signature(function).parameters)
