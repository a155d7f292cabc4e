"""The emulated device: takes Triton's launches while it is installed, keeps decoded kernels, findings and counts.

with emulator.install("gfx950") as device:
    kernel[grid](x, y, n, BLOCK=256)          # CPU tensors
device.findings, device.statistics
"""

from __future__ import annotations

import time
from typing import Any

from . import driver, redirect
from . import launch as launching
from .arguments import extent, flatten
from .errors import EmulatorError
from .findings import KINDS, Finding, Findings
from .machine import Machine
from .text import parse
from .tracking import Tracking

TARGETS = ("gfx942", "gfx950")
NOTICE = (
    "emulated, not hardware: the compiled machine code was interpreted; "
    "timing, caches and the last bits of transcendental functions are not modelled"
)
MODELLED = {
    "gfx942": "matrix products follow the measured CDNA3 model bit by bit",
    "gfx950": "matrix products are summed exactly and rounded once (how CDNA4 sums is not published)",
}


class Device:
    """An emulated MI300 (gfx942) or MI350 (gfx950).

    Args:
        arch: "gfx942" or "gfx950"
        detect: finding kinds that are looked for (findings.KINDS)
        budget: wave-instructions of a launch after which it counts as hung
        cores: processes that may share the workgroups of a launch; they change nothing but the time
    """

    def __init__(self, arch: str, detect: tuple[str, ...] = KINDS, budget: int = 2_000_000_000, cores: int = 1) -> None:
        if arch not in TARGETS:
            raise ValueError(f"no emulated device {arch!r}: expected one of {', '.join(TARGETS)}")
        self.arch, self.detect, self.budget, self.cores = arch, tuple(detect), budget, cores
        self.findings: list[Finding] = []
        self.statistics: list[dict[str, Any]] = []
        self.uninitialised: list[tuple[int, Any]] = []
        self.protected: list[tuple[int, int]] = []
        self.bases: dict[str, int] = {}
        self._machines: dict[str, Machine] = {}
        self._previous: Any = None
        self._restore: Any = None
        self._mode: Any = None

    def poison(self, tensor: Any) -> Any:
        """Marks a tensor's memory as never written: bytes that still hold what they hold now are unwritten, whoever else writes them.

        A kernel that reads such bytes before it writes them is found. Returns the tensor.
        """
        start, end = extent(tensor)
        self.uninitialised.append((start, launching.host_bytes(start, end - start).copy()))
        return tensor

    def protect(self, tensor: Any) -> Any:
        """Marks a tensor as an input: a store to any of its bytes is a finding. Returns the tensor."""
        self.protected.append(extent(tensor))
        return tensor

    def forget(self) -> None:
        """Begins a new call: no findings, no marks, no statistics."""
        for kept in (self.findings, self.statistics, self.uninitialised, self.protected):
            kept.clear()
        self.bases.clear()

    def put_at(self, argument: str, address: int) -> None:
        """Places the tensor of an argument at an address of choice (for offsets past 2^31 without the memory)."""
        self.bases[argument] = address

    def launch(self, src: Any, metadata: Any, grid: tuple[int, int, int], values: dict[str, Any]) -> None:
        """Runs one launch. Called by the driver's launcher."""
        text = driver.TEXTS[metadata.hash]
        machine = self._machines.get(metadata.hash)
        findings = Findings(self.detect)
        findings.kernel = metadata.name
        if machine is None:
            tracking = Tracking(findings) if {"race", "uninitialised_read"} & set(self.detect) else None
            machine = self._machines[metadata.hash] = Machine(parse(text), findings, tracking)
        machine.watch(findings)
        machine.executed, before, calls, started = 0, 0, machine.calls, time.perf_counter()
        try:
            launching.run(machine, list(flatten(src.signature, values)), grid, metadata.num_warps, metadata.shared, self)
        finally:
            self.findings += findings.list()
            seconds = time.perf_counter() - started
            self.statistics.append(
                {
                    "kernel": metadata.name,
                    "grid": grid,
                    "waves": metadata.num_warps * grid[0] * grid[1] * grid[2],
                    "wave_instructions": machine.executed - before,
                    "steps": machine.calls - calls,
                    "seconds": seconds,
                    "processes": machine.processes,
                }
            )

    def __enter__(self) -> Device:
        import triton

        if triton.knobs.runtime.interpret:
            raise EmulatorError("TRITON_INTERPRET is set: kernels would be interpreted, not compiled")
        self._previous = triton.runtime.driver._active
        triton.runtime.driver.set_active(driver.make_driver(self))
        driver.ACTIVE.append(self)
        self._restore = driver.remember_texts()
        self._mode = redirect.make_mode()
        self._mode.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        import triton

        self._mode.__exit__(*exc)
        self._restore()
        driver.ACTIVE.remove(self)
        triton.runtime.driver._active = self._previous
