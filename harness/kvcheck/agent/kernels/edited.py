"""Our Triton kernels with other text in them: what faults and mutants of a kernel's source are made of."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import inspect
import linecache
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

PACKAGE = "kvcheck.agent.kernels"


def edited(op: str, *edits: tuple[str, str]) -> Callable[..., None]:
    """An op's kernel with pieces of its source replaced.

    Args:
        op: name of the op, and of the kernel's file.
        edits: old and new text; the old one stands in the file exactly once.

    Returns:
        kernel: with the op's arguments.

    Raises:
        LookupError: an old text that is not there, or there more than once: the kernel has changed under the fault.
    """
    text = inspect.getsource(importlib.import_module(f"{PACKAGE}.{op}"))
    for old, new in edits:
        if text.count(old) != 1:
            raise LookupError(f"kernels/{op}.py holds {text.count(old)} times, and not once: {old!r}")
        text = text.replace(old, new)
    return launcher(getattr(module(op, text), op))


def launcher(kernel: Callable[..., Any]) -> Callable[..., None]:
    """The op's function of a kernel file's: arguments that the file leaves to the provider are the provider's here as well."""
    taken = inspect.signature(kernel).parameters

    def launch(**arguments: Any) -> None:
        from kvcheck.agent.kernels.target import native_fp8

        given = {name: value for name, value in arguments.items() if name in taken}
        if "from_bytes" in taken:
            given["from_bytes"] = arguments["kv_dtype"] not in native_fp8(arguments["q"].device)
        kernel(**given)

    return launch


def module(file: str, text: str, beside: str = "") -> types.ModuleType:
    """A kernel file's module made of other text; Triton reads that text again through `linecache`.

    Args:
        file: the kernel file's name.
        text: source.
        beside: what else the module is made of, such as the text of one that it imports: the same text twice is another module then.
    """
    digest = hashlib.sha256((text + beside).encode()).hexdigest()[:16]
    name = f"kvcheck_edited_{file}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    place = f"<edited {file} {digest}>"
    linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
    made = types.ModuleType(name)
    made.__file__ = place
    sys.modules[name] = made
    exec(compile(text, place, "exec"), made.__dict__)
    return made


@contextlib.contextmanager
def in_place(file: str, other: types.ModuleType) -> Iterator[None]:
    """While inside, whoever imports a kernel file gets another module."""
    name = f"{PACKAGE}.{file}"
    honest = importlib.import_module(name)
    sys.modules[name] = other
    try:
        yield
    finally:
        sys.modules[name] = honest
