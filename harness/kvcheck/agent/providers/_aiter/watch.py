"""Sees what the wrapper launches: its Triton kernels, and the Gluon kernels that it compiles itself."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

AMD_LAUNCH_OPTIONS = frozenset({"waves_per_eu", "matrix_instr_nonkdim", "kpack"})
"""Launch keywords that Triton's CUDA back end refuses; none of them changes what is computed."""

Note = Callable[[Any, Any, dict[str, Any]], None]


class Launch:
    """One kernel of the wrapper module: passes launches on, and notes what was launched.

    Args:
        kernel: a Triton kernel, or a Gluon kernel that the wrapper has compiled.
        note: told kernel, grid and keywords of each launch.
        drop: keywords that are not passed on.
        config: what a compiled kernel was compiled with, told beside the keywords.
    """

    def __init__(self, kernel: Any, note: Note, drop: frozenset[str], config: dict[str, Any] | None = None) -> None:
        self._kernel, self._note, self._drop, self._config = kernel, note, drop, config or {}

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def launch(*args: Any, **keywords: Any) -> Any:
            self._note(self._kernel, grid, self._config | keywords)
            return self._kernel[grid](*args, **{k: v for k, v in keywords.items() if k not in self._drop})

        return launch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)


def function(kernel: Any) -> Any:
    """The Python function of a kernel, compiled or not."""
    source = getattr(kernel, "src", None)
    return (kernel if source is None or isinstance(source, str) else source.fn).fn


def watch(module: types.ModuleType, note: Note, drop: frozenset[str] = frozenset(), failed: Callable[..., None] | None = None) -> None:
    """Lets `note(kernel, grid, keywords)` see each launch of the module's kernels.

    Args:
        module: the wrapper; changed.
        note: told of each launch.
        drop: keywords that are not passed on to the kernels.
        failed: told when a Gluon kernel does not compile, `failed(error, compile, keywords)`, before the error goes on.
    """
    from triton.runtime.jit import KernelInterface

    for name, value in list(vars(module).items()):
        if isinstance(value, KernelInterface) and not _is_gluon(value):
            setattr(module, name, Launch(value, note, drop))
        elif name.startswith("_compile_") and callable(value):
            setattr(module, name, _compiling(value, note, failed))


def _compiling(original: Callable[..., Any], note: Note, failed: Callable[..., None] | None) -> Callable[..., Any]:
    """A Gluon kernel's compile function, whose results are watched as well."""
    named = inspect.signature(original).bind

    def compile_kernel(*args: Any, **keywords: Any) -> Any:
        config = dict(named(*args, **keywords).arguments)
        try:
            return Launch(original(*args, **keywords), note, frozenset(), config)
        except Exception as error:
            if failed is not None:
                failed(error, original, config)
            raise

    return compile_kernel


def _is_gluon(kernel: Any) -> bool:
    asked = getattr(kernel, "is_gluon", None)
    return bool(asked()) if callable(asked) else False
