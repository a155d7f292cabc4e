"""A device that compiles and runs nothing: Triton and Gluon launches on CPU tensors are compiled for a chip, and what came of it is kept.

with CompileOnly("gfx950") as device:
    kernel[grid](x, y, n, BLOCK=256)
device.launched                                # [Compiled(...)]
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvcheck.agent.chips import chip

from . import driver, redirect
from .errors import EmulatorError


@dataclass
class Compiled:
    """One specialisation of one kernel.

    Attributes:
        src: Triton's source object: function, signature, constants, attributes.
        options: launch options as Triton's back end was given them.
        seconds: time that compiling took.
        kernel: the compiled kernel, or None.
        error: what compiling ended in, or None.
        printed: what the compiler printed on its way to the error.
        escaped: whether the error left the launch; an autotuner passes over a configuration that does not compile.
    """

    src: Any
    options: dict[str, Any]
    seconds: float
    kernel: Any = None
    error: BaseException | None = None
    printed: str = ""
    escaped: bool = False


class CompileOnly:
    """Stands in for a chip while it is entered.

    Args:
        arch: name of a chip (chips.py).
        around: told True before a kernel is compiled, with its source, and False afterwards.

    Attributes:
        launched: kernels of the launches since `launched` was last emptied, each once, in order; those that failed included.
    """

    def __init__(self, arch: str, around: Callable[[bool, Any], None] = lambda begins, src: None) -> None:
        self.arch, self.chip, self.around = arch, chip(arch), around
        self.launched: list[Compiled] = []
        self._known: dict[str, Compiled] = {}
        self._failed: dict[Any, Compiled] = {}
        self._undo: list[Callable[[], None]] = []

    def launch(self, src: Any, metadata: Any, grid: tuple[int, int, int], values: dict[str, Any]) -> None:
        """Notes a launch. Called by the driver's launcher."""
        self._note(self._known[metadata.hash])

    def compile(self, original: Callable[..., Any], src: Any, target: Any, options: dict[str, Any], **more: Any) -> Any:
        """Compiles through Triton and keeps what came of it; what failed once is not tried again."""
        key = (src.hash(), repr(sorted(options.items(), key=str)))
        failed = self._failed.get(key)
        if failed is None:
            self.around(True, src)
            started = time.perf_counter()
            try:
                kernel = original(src, target=target, options=options, **more)
                self._fits(kernel)
            except Exception as error:
                failed = self._failed[key] = Compiled(src, options, time.perf_counter() - started, error=error)
                failed.printed = self._printed(error, lambda: original(src, target=target, options=options, **more))
            else:
                compiled = self._known[kernel.metadata.hash] = Compiled(src, options, time.perf_counter() - started, kernel)
                self._note(compiled)
                return kernel
            finally:
                self.around(False, src)
        self._note(failed)
        raise failed.error

    def __enter__(self) -> CompileOnly:
        import triton
        from triton.compiler import compiler

        if os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes"):
            raise EmulatorError("TRITON_INTERPRET is set: kernels would be interpreted, not compiled")
        slot = "_active" if hasattr(triton.runtime.driver, "_active") else "active"  # the latter in Triton 3.4 and older
        previous, original = getattr(triton.runtime.driver, slot), compiler.compile
        triton.runtime.driver.set_active(driver.make_driver(self))

        def compile_here(src: Any, target: Any = None, options: dict[str, Any] | None = None, **more: Any) -> Any:
            return self.compile(original, src, target, dict(options or {}), **more)

        # JIT functions look the compiler up before their first launch, and launch code that compiles ahead calls triton.compile.
        places = [module for module in (triton, triton.compiler, compiler) if getattr(module, "compile", None) is original]
        for module in places:
            module.compile = compile_here
        mode = redirect.make_mode()
        mode.__enter__()
        driver.ACTIVE.append(self)
        self._undo = [
            lambda: driver.ACTIVE.remove(self),
            lambda: mode.__exit__(None, None, None),
            lambda: [setattr(module, "compile", original) for module in places],
            lambda: setattr(triton.runtime.driver, slot, previous),
        ]
        return self

    def __exit__(self, *_: Any) -> None:
        for undo in self._undo:
            undo()

    def _fits(self, kernel: Any) -> None:
        """Refuses what the chip would refuse at the launch, as Triton does, so that it counts against this kernel."""
        if kernel.metadata.shared > self.chip.shared_bytes:
            from triton.runtime.errors import OutOfResources

            raise OutOfResources(kernel.metadata.shared, self.chip.shared_bytes, "shared memory")

    def _note(self, compiled: Compiled) -> None:
        if not any(compiled is other for other in self.launched):
            self.launched.append(compiled)

    @staticmethod
    def _printed(error: Exception, again: Callable[[], Any]) -> str:
        """What the compiler prints on descriptor 2 when it is asked again: passes name the place there, not in the exception."""
        if hasattr(error, "node") or type(error).__name__ in ("OutOfResources", "PTXASError"):
            return ""
        import tempfile

        with tempfile.TemporaryFile() as file:
            kept = os.dup(2)
            os.dup2(file.fileno(), 2)
            try:
                again()
            except Exception:
                pass  # the error is known
            finally:
                os.dup2(kept, 2)
                os.close(kept)
            file.seek(0)
            return file.read().decode(errors="replace")
