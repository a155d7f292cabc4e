"""Loads aiter's own Triton and Gluon kernel files, unmodified, where there is no ROCm.

`import aiter` needs ROCm at nearly every commit: its `__init__` pulls in the HIP operators. So the package folders stand here as
bare modules (no `__init__` is run), and three things that only a ROCm machine can answer are answered here: the architecture, the
number of compute units, and which FP8 type `aiter.dtypes.fp8` is. The wrapper and kernel files are the package's own. On ROCm a
checkout is loaded in the same way, with the machine's own answers: so nothing is built, and nothing is written into it. Where Triton
compiles for an AMD card that torch does not drive, the answers are that card's.

Source: ROCm/aiter@e4048607a5 and older, aiter/ops/triton/[attention/]pa_mqa_logits.py.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kvcheck.agent.protocol import Unsupported
from kvcheck.agent.providers._aiter.source import Source

ARCH = "gfx90a"
"""An architecture for which the newest wrapper takes the plain Triton kernel: Gluon kernels are neither interpreted nor CUDA's."""

CU_COUNT = 80
"""Compute units where no device can be asked: the default of the wrapper itself until d9c373033c (2026-06-17)."""

BARE_PACKAGES = ("aiter", "aiter.jit", "aiter.jit.utils", "aiter.ops", "aiter.ops.triton", "aiter.utility")


@dataclass(frozen=True)
class Machine:
    """What the wrapper is told about the device.

    Attributes:
        arch: architecture name such as "gfx942".
        cu_count: compute units.
        backend: "hip", "cuda" or "interpreter". Only where Triton compiles for AMD is the architecture true, and may the wrapper take its
            Gluon kernels.
        rocm: whether torch drives the card; prebuilt code runs there alone.
    """

    arch: str = ARCH
    cu_count: int = CU_COUNT
    backend: str = "interpreter"
    rocm: bool = False

    @property
    def fp8(self) -> str | None:
        """The FP8 format of the architecture; None where any can be asked for."""
        if self.backend != "hip":
            return None
        return "e4m3fnuz" if self.arch.startswith("gfx94") else "e4m3fn"


def load(source: Source, machine: Machine) -> tuple[types.ModuleType, types.ModuleType]:
    """The wrapper module of one aiter, and the `aiter.dtypes` it reads `fp8` from.

    Args:
        source: which aiter.
        machine: what the wrapper is told about the device.

    Raises:
        Unsupported: the file does not parse on this Python, or does not load. That says nothing about the kernel.
    """
    name = source.module()
    forget()
    sys.dont_write_bytecode = True  # nothing may be written into somebody's checkout
    dtypes = _stand(source, machine)
    try:
        with _some_driver():
            module = importlib.import_module(name)
    except SyntaxError as error:
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        where = source.relative(error.filename or source.wrapper())
        hint = "; fe927e8d32 to 914dcee391 (2025-11) need Python 3.12" if sys.version_info < (3, 12) else ""
        raise Unsupported(f"{source.name()}: {where} line {error.lineno} does not parse on Python {here} ({error.msg}){hint}") from error
    except Exception as error:
        raise Unsupported(f"{source.name()} does not load: {type(error).__name__}: {error}") from error
    if machine.backend != "hip" and getattr(module, "enable_gluon_pa_mqa_logits", False):
        # Until 04907edc21 the wrapper turned Gluon on by Triton's version alone; this is its own switch.
        module.enable_gluon_pa_mqa_logits = False
    return module, dtypes


def forget() -> None:
    """Lets go of an aiter that was loaded here before: the next import finds another."""
    for name in [n for n in sys.modules if n == "aiter" or n.startswith("aiter.")]:
        del sys.modules[name]


def _stand(source: Source, machine: Machine) -> types.ModuleType:
    for name in BARE_PACKAGES:
        bare = types.ModuleType(name)
        folder = source.package.joinpath(*name.split(".")[1:])
        bare.__path__ = [str(folder)]
        bare.__file__ = str(folder / "__init__.py")
        sys.modules[name] = bare
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, bare)
    dtypes = types.ModuleType("aiter.dtypes")
    _fill_dtypes(dtypes, machine)
    chip = types.ModuleType("aiter.jit.utils.chip_info")
    chip.get_gfx = chip.get_gfx_runtime = lambda: machine.arch
    chip.get_cu_num = lambda: machine.cu_count
    for name, module in (("aiter.dtypes", dtypes), ("aiter.jit.utils.chip_info", chip)):
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        setattr(sys.modules[parent], child, module)
    return dtypes


def _fill_dtypes(dtypes: types.ModuleType, machine: Machine) -> None:
    import torch

    dtypes.fp8 = torch.float8_e4m3fnuz if machine.fp8 == "e4m3fnuz" else torch.float8_e4m3fn
    dtypes.bf16, dtypes.fp16, dtypes.fp32 = torch.bfloat16, torch.float16, torch.float32
    dtypes.i32, dtypes.i64, dtypes.u8 = torch.int32, torch.int64, torch.uint8


@contextlib.contextmanager
def _some_driver() -> Iterator[None]:
    """While aiter is imported, Triton has a driver: helper modules ask it for the architecture as they load."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    try:
        driver.active.get_current_target()
    except RuntimeError:
        pass
    else:
        yield
        return
    stand_in = types.SimpleNamespace(
        get_current_target=lambda: GPUTarget("hip", ARCH, 64), get_current_device=lambda: 0, get_active_torch_device=_cpu
    )
    driver.set_active(stand_in)
    try:
        yield
    finally:
        driver._active = None  # back to asking the machine, which answers as before


def _cpu() -> Any:
    import torch

    return torch.device("cpu")
