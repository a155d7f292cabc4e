"""AMD machine code on any CPU: executes the assembly text that Triton compiles for gfx942 and gfx950, lane by lane, and checks every
access.

Numpy and the standard library; triton and torch only where a launch is taken over (device.py, driver.py). HOUSE.md names the layers.
"""

from __future__ import annotations

from typing import Any

from .device import Device
from .errors import Deadlock, EmulatorError, MemoryFault, NotEmulated
from .findings import FAULTS, KINDS, Finding


def install(arch: str, **options: Any) -> Device:
    """An emulated device as a context manager; inside it, Triton and Gluon launches on CPU tensors run in the emulator.

    Args:
        arch: "gfx942" or "gfx950"
        options: see Device
    """
    return Device(arch, **options)


__all__ = ["FAULTS", "KINDS", "Deadlock", "Device", "EmulatorError", "Finding", "MemoryFault", "NotEmulated", "install"]
