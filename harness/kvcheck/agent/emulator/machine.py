"""Runs a decoded kernel: waves of many workgroups in batches, split where they part at a branch, joined where they meet, held at barriers.

The group at the lowest instruction runs first, so that waves that parted meet again; a spinning group yields to the others after a while.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from . import (  # noqa: F401
    atomics,
    control,
    convert,
    convert_scaled,
    division,
    lanes,
    lds,
    lds_lanes,
    mfma,
    packed,
    scalar,
    scalar_bits,
    scalar_compare,
    scratch,
    spread,
    vector_compare,
    vector_float,
    vector_integer,
    vmem,
)
from .control import BARRIER, END, Split
from .decoder import Decoder, Step, build
from .errors import Deadlock
from .findings import Findings
from .hazards import check
from .local import Local
from .memory import Arena
from .operands import AGPR
from .state import EXEC, POISON, SCALARS, Group
from .text import Text

PATIENCE = 500
"""Instructions a group may run while others wait at other places."""
WAVES_A_BATCH = 128


@contextmanager
def uncollected() -> Iterator[None]:
    """Keeps the garbage collector from walking all of torch again and again while closures by the thousand are made."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class Machine:
    """A kernel decoded for one device, with the memory it runs in. Decoding is done once a kernel; memories are set for each launch.

    Args:
        given: registers that are set before the first instruction beside those that the hardware sets (for tests of single instructions)
    """

    def __init__(self, text: Text, findings: Findings, tracking: Any = None, given: frozenset[tuple[str, int]] = frozenset()) -> None:
        self.text, self.findings, self.tracking = text, findings, tracking
        self.arena: Arena = Arena()
        self.lds: Local | None = None
        self.scratch: Local | None = None
        self.has_atomics = False
        self.executed = 0
        self.calls = 0
        self.pace: float | None = None
        """Seconds of the latest batch; None before the first."""
        self.processes = 1
        self.progress: np.ndarray | None = None
        """Where the number of steps is shown to a parent process."""
        with uncollected():
            decoded = [build(ins, text, self) for ins in text.instructions]
            self.vectors, self.accumulators = self._count([d for _, d in decoded])
            self.steps: list[Step] = check(self, [d for _, d in decoded], [step for step, _ in decoded], given)

    def _count(self, decoded: list[Decoder]) -> tuple[int, int]:
        used = [i for d in decoded for kind, i in (*d.reads, *d.writes) if kind == "v"]
        low = max((i for i in used if i < AGPR), default=0) + 1
        return low, max((i for i in used), default=0) + 1

    def watch(self, findings: Findings) -> None:
        """Reports to these findings from now on."""
        self.findings = findings
        if self.tracking:
            self.tracking.findings = findings

    def run(self, grid: tuple[int, int, int], waves: int, user_scalars: np.ndarray, lds_bytes: int, budget: int, cores: int = 1) -> None:
        """Runs all workgroups.

        Args:
            grid: workgroups in x, y, z
            waves: waves of a workgroup
            user_scalars: [n] uint32, the first scalar registers: argument block address, preloaded arguments
            lds_bytes: LDS of a workgroup
            budget: wave-instructions after which the launch counts as hung
            cores: processes that may work at once
        """
        total = grid[0] * grid[1] * grid[2]
        step = max(1, WAVES_A_BATCH // waves)
        batches = [np.arange(first, min(total, first + step)) for first in range(0, total, step)]

        def one(ids: np.ndarray) -> None:
            started = time.perf_counter()
            self._workgroups(ids, grid, waves, user_scalars, lds_bytes, budget)
            if len(ids) == step or self.pace is None:
                self.pace = time.perf_counter() - started

        self.processes, alone = 1, False
        while batches:
            if not alone and spread.worth(self, len(batches), cores):
                if spread.attempt(self, batches, one, budget, cores):
                    self.processes = min(cores, len(batches))
                    return
                alone = True
            one(batches.pop(0))

    def _workgroups(self, ids: np.ndarray, grid: tuple[int, int, int], waves: int, user: np.ndarray, lds_bytes: int, budget: int) -> None:
        """Runs one batch of workgroups to their ends."""
        self.lds = Local(len(ids), lds_bytes, 0xFF)
        private = self.text.descriptor.get("private_segment_fixed_size", 0)
        if private:
            self.scratch = Local(len(ids) * waves * 64, private, 0xFF)
        if self.tracking:
            self.tracking.start(self, ids, lds_bytes)
        self._batch(self._start(ids, grid, waves, user), len(ids), waves, budget)

    def _start(self, ids: np.ndarray, grid: tuple[int, int, int], waves: int, user: np.ndarray) -> Group:
        n = len(ids) * waves
        slot, local = np.repeat(np.arange(len(ids)), waves), np.tile(np.arange(waves), len(ids))
        scalars = np.full((SCALARS, n), POISON, np.uint32)
        scalars[EXEC] = scalars[EXEC + 1] = 0xFFFFFFFF
        scalars[: len(user)] = user[:, None]
        k = len(user)
        group = np.repeat(ids, waves)
        x, y, z = group % grid[0], group // grid[0] % grid[1], group // (grid[0] * grid[1])
        for name, value in (("x", x), ("y", y), ("z", z)):
            if self.text.descriptor.get(f"system_sgpr_workgroup_id_{name}", 0):
                scalars[k] = value
                k += 1
        vectors = np.full((self.accumulators, n, 64), POISON, np.uint32)
        vectors[0] = local[:, None] * 64 + np.arange(64)
        g = Group(scalars, vectors, np.zeros(n, bool), np.arange(n), slot, local)
        g.pc = self.text.entry
        g.lds_base = slot.astype(np.int64) * self.lds.size
        return g

    def _batch(self, first: Group, workgroups: int, waves: int, budget: int) -> None:
        running, waiting = [first], []
        left = np.full(workgroups, waves)
        while running or waiting:
            if not running:
                running, waiting = self._release(waiting, left)
                continue
            running.sort(key=lambda g: g.pc)
            g = running.pop(0)
            same = [o for o in running if o.pc == g.pc and o.mode == g.mode]
            if same:
                running = [o for o in running if not any(o is s for s in same)]
                g = g.join(same)
            signal = self._advance(g, running)
            if signal is BARRIER:
                waiting.append(g)
            elif signal is END:
                np.subtract.at(left, g.workgroup, 1)
            elif isinstance(signal, Split):
                taken = signal.taken
                other = g.take(np.nonzero(~taken)[0])
                other.pc = g.pc + 1
                jump = g.take(np.nonzero(taken)[0])
                jump.pc = signal.target
                running += [other, jump]
            else:
                running.append(g)
            if self.executed > budget:
                raise Deadlock(f"more than {budget} wave-instructions: the kernel does not end")
            if signal == "yield" and len(running) > 1:  # a spinning group: let the others pass first
                last = running.pop()
                for o in sorted(running, key=lambda o: o.pc):
                    if self._advance_alone(o, running, waiting, left):
                        break
                running.append(last)

    def _advance_alone(self, g: Group, running: list[Group], waiting: list[Group], left: np.ndarray) -> bool:
        """Runs one other group for a while although it is not at the lowest place. True when the list of groups changed."""
        signal = self._advance(g, [])
        if signal == "yield":
            return False
        running.remove(g)
        if signal is BARRIER:
            waiting.append(g)
        elif signal is END:
            np.subtract.at(left, g.workgroup, 1)
        else:
            other, jump = g.take(np.nonzero(~signal.taken)[0]), g.take(np.nonzero(signal.taken)[0])
            other.pc, jump.pc = g.pc + 1, signal.target
            running += [other, jump]
        return True

    def _advance(self, g: Group, others: list[Group]) -> Any:
        """Runs a group until it parts, waits, ends, or reaches the place of another group."""
        steps, pc, n = self.steps, g.pc, 0
        stop = min((o.pc for o in others), default=1 << 60)
        limit = PATIENCE if others or g.size < 1 << 30 else 1 << 60
        try:
            while True:
                signal = steps[pc](g)
                n += 1
                if signal is None:
                    pc += 1
                elif type(signal) is int:
                    pc = signal
                elif signal is BARRIER:
                    pc += 1
                    return BARRIER
                else:
                    return signal
                if pc >= stop:
                    return None
                if n >= limit:
                    return "yield"
        finally:
            g.pc = pc
            self.executed += n * g.size
            self.calls += n
            if self.progress is not None:
                self.progress[0] = self.calls

    def _release(self, waiting: list[Group], left: np.ndarray) -> tuple[list[Group], list[Group]]:
        """Lets workgroups go on whose waves have all arrived at a barrier."""
        arrived = np.zeros(len(left), int)
        for g in waiting:
            np.add.at(arrived, g.workgroup, 1)
        ready = (arrived == left) & (left > 0)
        if not ready.any():
            raise Deadlock("waves wait at a barrier that the others of their workgroup never reach")
        if self.tracking:
            self.tracking.barrier(np.nonzero(ready)[0])
        go, stay = [], []
        for g in waiting:
            passes = ready[g.workgroup]
            if passes.all():
                go.append(g)
            elif passes.any():
                go.append(g.take(np.nonzero(passes)[0]))
                stay.append(g.take(np.nonzero(~passes)[0]))
            else:
                stay.append(g)
        return go, stay
