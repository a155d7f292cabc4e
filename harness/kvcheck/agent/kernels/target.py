"""What Triton compiles for on a device, as kernels and providers ask it: of Triton's own active driver."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from kvcheck.agent.chips import chip


@dataclass(frozen=True)
class Target:
    """What a kernel is compiled for.

    Attributes:
        backend: "hip", "cuda", or "interpreter" (nothing is compiled).
        arch: "gfx950", "sm_90", or "cpu" under the interpreter.
        compute_units: compute units or multiprocessors; 1 under the interpreter.
        rocm: whether torch itself drives an AMD card: prebuilt code can run there alone.
    """

    backend: str
    arch: str
    compute_units: int
    rocm: bool = False

    @property
    def interpreted(self) -> bool:
        """Whether kernels are interpreted."""
        return self.backend == "interpreter"


def current(device: Any) -> Target:
    """The target of launches on tensors of a device.

    Args:
        device: torch device.

    Raises:
        ImportError: there is no triton.
    """
    import torch
    import triton

    device = torch.device(device)
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        if torch.version.hip:
            return Target("hip", properties.gcnArchName.partition(":")[0], properties.multi_processor_count, rocm=True)
        return Target("cuda", f"sm_{properties.major}{properties.minor}", properties.multi_processor_count)
    if os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes"):
        return Target("interpreter", "cpu", 1)
    try:
        found = triton.runtime.driver.active.get_current_target()
    except RuntimeError:  # no driver is active: a CPU alone
        return Target("interpreter", "cpu", 1)
    name = found.arch if found.backend == "hip" else f"sm_{found.arch}"
    return Target(found.backend, name, chip(name).units)


def native_fp8(device: Any) -> tuple[str, ...]:
    """FP8 formats that Triton loads as such on a device.

    Args:
        device: torch device.
    """
    target = current(device)
    if target.interpreted:
        return ("e4m3fn",)  # the interpreter of triton 3.7 has no FNUZ pointer type
    if target.backend == "hip":
        return ("e4m3fnuz",) if target.arch.startswith("gfx94") else ("e4m3fn",)
    return ("e4m3fn",) if int(target.arch.removeprefix("sm_")) >= 89 else ()
