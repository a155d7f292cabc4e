"""Triton's active driver while a chip is stood in for: JIT and Gluon launches compile for that chip and end here.

Nothing of Triton is patched. Its own back end decides specialisation, attributes and options, because it is asked for the target of this
driver; only the last step, handing a code object to the runtime, is ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kvcheck.agent.chips import Chip, chip

ACTIVE: list[Any] = []
"""The installed devices, innermost last: kernels compiled earlier are launched on whichever is installed now."""
TEXTS: dict[str, str] = {}
"""Assembly text of every kernel compiled while a device was installed, by Triton's hash."""


class Utilities:
    """What `triton.runtime.driver.active.utils` offers: binaries and device properties."""

    def __init__(self, chip: Chip) -> None:
        self.chip = chip

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[Any, Any, int, int, int]:
        """There is nothing to load: the launcher reads the assembly text. Registers and spills are in `inspect.summary`."""
        return None, name, 0, 0, 1024

    def get_device_properties(self, device: int) -> dict[str, Any]:
        """The properties Triton and kernels' launch code look at."""
        return {
            "max_shared_mem": self.chip.shared_bytes,
            "multiprocessor_count": self.chip.units,
            "warpSize": self.chip.warp,
            "arch": self.chip.name,
            "max_num_regs": 131072,
            "sm_clock_rate": 2100000,
            "mem_clock_rate": 1300000,
            "mem_bus_width": 8192,
            "cooperativeLaunch": True,
        }


class Launcher:
    """What Triton calls for a launch: keeps the compiled source's signature and metadata and hands the call to the device."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self.src = src
        self.metadata = metadata

    def __call__(self, grid_x, grid_y, grid_z, stream, function, packed, launch_metadata, enter_hook, exit_hook, *args) -> None:
        if enter_hook is not None:
            enter_hook(launch_metadata)
        names = list(self.src.signature)
        ACTIVE[-1].launch(self.src, self.metadata, (int(grid_x), int(grid_y), int(grid_z)), dict(zip(names, args, strict=False)))
        if exit_hook is not None:
            exit_hook(launch_metadata)


def remember_texts() -> Callable[[], None]:
    """Keeps the text of every kernel that Triton compiles or loads from its cache, until the returned function is called."""
    from triton.compiler.compiler import CompiledKernel

    original = CompiledKernel.__init__

    def remember(kernel: Any, *args: Any, **kwargs: Any) -> None:
        original(kernel, *args, **kwargs)
        if "amdgcn" in kernel.asm:
            TEXTS[kernel.metadata.hash] = kernel.asm["amdgcn"]

    CompiledKernel.__init__ = remember

    def restore() -> None:
        CompiledKernel.__init__ = original

    return restore


def make_driver(device: Any) -> Any:
    """A driver object for `triton.runtime.driver.set_active`, bound to a device that stands in for the chip named by its `arch`."""
    import torch
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import DriverBase

    card = chip(device.arch)

    class StandIn(DriverBase):
        def __init__(self) -> None:
            self.utils = Utilities(card)
            self.launcher_cls = Launcher

        @classmethod
        def is_active(cls) -> bool:
            return True

        def map_python_to_cpp_type(self, ty: str) -> str:
            return ty

        def get_current_target(self) -> Any:
            return GPUTarget(card.backend, card.arch, card.warp)

        def get_active_torch_device(self) -> torch.device:
            return torch.device("cpu")

        def get_device_interface(self) -> Any:
            return torch.cpu

        def get_current_device(self) -> int:
            return card.index

        def set_current_device(self, index: int) -> None:
            pass

        def get_current_stream(self, index: int | None = None) -> int:
            return 0

        def get_device_capability(self, index: int | None = None) -> tuple[int, int]:
            return card.capability

        def get_benchmarker(self) -> Callable[..., list[float]]:
            """Autotuning runs each configuration once; the emulator's own time orders them."""

            def benchmark(call: Callable[[], Any], *, quantiles: list[float] | None = None, **_: Any) -> list[float]:
                started = time.perf_counter()
                call()
                return [(time.perf_counter() - started) * 1e3] * len(quantiles or [0.5])

            return benchmark

        def get_empty_cache_for_benchmark(self) -> torch.Tensor:
            return torch.empty(1, dtype=torch.int32)

        def clear_cache(self, cache: Any) -> None:
            pass

    return StandIn()
