"""Keeps compilation off a case's clock: Triton's own hooks, and the builds that kernel packages start at a first call."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

BUILDS = (("aiter.jit.core", "build_module"), ("torch.utils.cpp_extension", "_jit_compile"))
"""Functions that compile native code when a kernel is first called: minutes, once an image."""


class CompileClock:
    """Announces phase "compile" while Triton or a kernel package compiles, and adds up the time.

    Args:
        phase: told "compile" and, afterwards, "kernel".

    Attributes:
        seconds: time spent compiling so far.
    """

    def __init__(self, phase: Callable[[str], None]):
        self.seconds = 0.0
        self._phase = phase
        self._begun: float | None = None
        self._saved: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> CompileClock:
        runtime = getattr(getattr(sys.modules.get("triton"), "knobs", None), "runtime", None)
        if runtime is not None:
            for name, hook in (("jit_cache_hook", self._before), ("jit_post_compile_hook", self._after)):
                if hasattr(runtime, name):
                    self._saved.append((runtime, name, getattr(runtime, name)))
                    setattr(runtime, name, hook)
        for module, name in BUILDS:
            build = getattr(sys.modules.get(module), name, None)
            if callable(build):
                self._saved.append((sys.modules[module], name, build))
                setattr(sys.modules[module], name, self._timed(build))
        return self

    def __exit__(self, *_: Any) -> None:
        for owner, name, value in self._saved:
            setattr(owner, name, value)

    def _timed(self, build: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(build)
        def timed(*arguments: Any, **options: Any) -> Any:
            self._before()
            try:
                return build(*arguments, **options)
            finally:
                self._after()

        return timed

    def _before(self, *_: Any, already_compiled: bool = False, **__: Any) -> bool:
        if not already_compiled:
            self._begun = time.perf_counter()
            self._phase("compile")
        return False

    def _after(self, *_: Any, **__: Any) -> bool:
        if self._begun is not None:
            self.seconds += time.perf_counter() - self._begun
            self._begun = None
            self._phase("kernel")
        return False
