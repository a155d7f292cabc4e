"""Runs a mutant of our own Triton kernels as a provider: `mutant:FILE:N` is the N-th change of `mutations.of(FILE)`.

Under the interpreter every address that a launch touches is held to the tensors of that launch: a read that strays leaves no trace in an
output, and under the interpreter no card would object. `mutant:FILE:honest` is the kernel as it is, held to the same.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

from kvcheck.agent import mutations
from kvcheck.agent.kernels import edited

HONEST = "honest"


class Mutant:
    """The body of a provider: one op function, and the precision that the honest kernel declares.

    Args:
        variant: FILE:N or FILE:honest.

    Raises:
        LookupError: no such change.
    """

    def __init__(self, variant: str):
        file, _, number = variant.partition(":")
        if file not in mutations.files() or (number != HONEST and not (number.isdigit() and int(number) < len(mutations.of(file)))):
            raise LookupError(f"no mutant {variant!r}: expected FILE:N with a file of agent/kernels and the number of one of its changes")
        text = mutations.source(file) if number == HONEST else mutations.mutated(mutations.of(file)[int(number)])
        self.name = f"mutant:{variant}" if number == HONEST else mutations.of(file)[int(number)].name
        op = mutations.OPS_OF.get(file, file)
        module = edited.module(file, text)
        if op != file:
            with edited.in_place(file, module):
                module = edited.module(op, mutations.source(op), beside=file + text)
        setattr(self, op, _held(edited.launcher(getattr(module, op))))

    def dispatch(self, op: str) -> str:
        """What ran."""
        return f"agent/kernels, {self.name}"

    def precision(self, op: str, params: dict[str, Any], device: dict[str, Any]) -> str:
        """The honest kernel's."""
        return importlib.import_module("kvcheck.agent.providers.triton").precision(op, params, device)


class StrayAccess(RuntimeError):
    """A kernel touches memory that is not in the tensors it was given."""


@contextlib.contextmanager
def held() -> Iterator[None]:
    """While inside, an interpreted kernel that strays raises `StrayAccess`; compiled kernels are left alone."""
    from triton.runtime import interpreter

    builder, executor = interpreter.InterpreterBuilder, interpreter.GridExecutor
    load, store, launch = builder.create_masked_load, builder.create_masked_store, executor.__call__
    extents: list[tuple[int, int]] = []

    def launched(self: Any, *arguments: Any, **keywords: Any) -> Any:
        extents[:] = [_extent(tensor) for tensor in (*arguments, *keywords.values()) if hasattr(tensor, "data_ptr")]
        return launch(self, *arguments, **keywords)

    def loaded(self: Any, ptrs: Any, mask: Any, *rest: Any) -> Any:
        _hold(ptrs, mask, extents, "reads")
        return load(self, ptrs, mask, *rest)

    def stored(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
        _hold(ptrs, mask, extents, "writes")
        return store(self, ptrs, value, mask, *rest)

    builder.create_masked_load, builder.create_masked_store, executor.__call__ = loaded, stored, launched
    try:
        yield
    finally:
        builder.create_masked_load, builder.create_masked_store, executor.__call__ = load, store, launch


def _hold(ptrs: Any, mask: Any, extents: list[tuple[int, int]], what: str) -> None:
    touched = ptrs.data[mask.data.astype(bool)]
    if not touched.size:
        return
    low, high = int(touched.min()), int(touched.max()) + ptrs.get_element_ty().primitive_bitwidth // 8
    if not any(begin <= low and high <= end for begin, end in extents):
        raise StrayAccess(f"the kernel {what} {high - low} bytes that lie in none of the {len(extents)} tensors it was given")


def _extent(tensor: Any) -> tuple[int, int]:
    """First byte of a view, and one past its last."""
    begin = tensor.data_ptr()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return begin, begin + ((last + 1) * tensor.element_size() if tensor.numel() else 0)


def _held(kernel: Callable[..., None]) -> Callable[..., None]:
    def launch(**arguments: Any) -> None:
        with held():
            kernel(**arguments)

    return launch
