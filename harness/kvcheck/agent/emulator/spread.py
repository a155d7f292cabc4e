"""Spreads the workgroups of a launch over processes, with the bytes, findings and counts of one process.

Every child runs each n'th batch on the copy of the memory that a fork makes, and notes which bytes it loaded and stored. Where no
child touched what another stored, their order cannot matter: the parent puts together their stores, and their findings in the order of
batches. In every other case (a race, a fault, any exception, a store to an input) it keeps nothing of theirs and runs the batches
itself, so that what is reported is what one process meets.
"""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import pickle
import selectors
import signal
import sys
import time
import warnings
from collections.abc import Callable
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from .errors import Deadlock, EmulatorError
from .marks import Bits, Marks

WORTH = 0.1
"""Seconds of work below which processes cost more than they save."""
LARGEST = 1 << 30
"""Bytes of tensors that may be stored to; above, one process runs the launch, because notes are as large as the tensors."""
STALLED = 120.0
"""Seconds without a step after which a child counts as lost."""
LOOK = 1.0
"""Seconds between looks at the children."""
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None

Run = Callable[[np.ndarray], None]


class WorkerLost(EmulatorError):
    """A process of a launch ended, or stood still, without an answer."""


class Answer(NamedTuple):
    """What one process did: by tensor (its place in the arena) the bytes loaded and stored, and the stored ones; findings by batch."""

    loads: dict[int, Bits]
    stores: dict[int, Bits]
    data: dict[int, np.ndarray]
    found: dict[int, dict]
    executed: int
    calls: int
    over: bool


def worth(machine: Any, left: int, cores: int) -> bool:
    """Whether processes may run the batches that are left, and would save time."""
    if cores < 2 or left < 2 or machine.has_atomics or machine.pace is None or not hasattr(os, "fork"):
        return False
    return machine.pace * left >= WORTH and sum(r.size for r in machine.arena.regions if r.writable) <= LARGEST


def attempt(machine: Any, batches: list[np.ndarray], run: Run, budget: int, cores: int) -> bool:
    """Runs batches in processes. True when all is done; False when nothing is, and the caller must run them.

    Args:
        batches: workgroup ids of each
        run: runs one batch in the process that calls it
        budget: wave-instructions of the whole launch

    Raises:
        Deadlock: the budget ran out. Tensors hold what they held before these batches.
        WorkerLost: a process ended, or stood still, without an answer.
    """
    count = min(cores, len(batches))
    progress = np.frombuffer(mmap.mmap(-1, mmap.PAGESIZE * count), np.int64).reshape(count, -1)
    workers: list[_Worker] = []
    try:
        for k in range(count):
            mine = {i: batches[i] for i in range(k, len(batches), count)}
            workers.append(_Worker(lambda mine=mine, k=k: _work(machine, mine, run, budget, progress[k]), progress[k]))
        answers = _gather(workers)
    except OSError:  # no more processes, memory or descriptors: one process needs none
        return False
    finally:
        for worker in workers:
            worker.end()
    if answers is None:
        return False
    if any(a.over for a in answers) or machine.executed + sum(a.executed for a in answers) > budget:
        raise Deadlock(f"more than {budget} wave-instructions: the kernel does not end")
    if any(_meet(a, b) for a, b in permutations(answers, 2)):
        return False
    _accept(machine, answers)
    return True


def _work(machine: Any, mine: dict[int, np.ndarray], run: Run, budget: int, progress: np.ndarray) -> Answer | None:
    """Runs batches in a child. None where only one process can tell what happens."""
    marks = machine.arena.marks = Marks()
    before, found, over = (machine.executed, machine.calls), {}, False
    machine.progress = progress
    for i, ids in mine.items():
        findings = machine.findings.empty()
        machine.watch(findings)
        try:
            run(ids)
        except Deadlock:
            if machine.executed <= budget:
                return None
            over = True
            break
        if findings.rows:
            found[i] = findings.rows
    if not marks.exact and not over:
        return None
    place = {region: i for i, region in enumerate(machine.arena.regions)}
    loads, stores = ({place[r]: Bits.of(m) for r, m in kept.items() if r.size and m.any()} for kept in (marks.loads, marks.stores))
    data = {place[r]: r.memory[m[: r.size]] for r, m in marks.stores.items() if place[r] in stores}
    return Answer(loads, stores, data, found, machine.executed - before[0], machine.calls - before[1], over)


def _meet(a: Answer, b: Answer) -> bool:
    """Whether a process touched what another stored."""
    return any(bits.meets(touched[i]) for i, bits in a.stores.items() for touched in (b.stores, b.loads) if i in touched)


def _accept(machine: Any, answers: list[Answer]) -> None:
    for answer in answers:
        for i, bits in answer.stores.items():
            memory = machine.arena.regions[i].memory[bits.first : bits.first + bits.count]
            memory[bits.marks()[: memory.size]] = answer.data[i]
        machine.executed += answer.executed
        machine.calls += answer.calls
    found = {i: rows for answer in answers for i, rows in answer.found.items()}
    for i in sorted(found):
        machine.findings.absorb(found[i])


class _Worker:
    """A child that does one thing and answers once."""

    def __init__(self, work: Callable[[], Any], progress: np.ndarray) -> None:
        self.progress, self.seen, self.moved = progress, 0, time.monotonic()
        self.received = bytearray()
        self.out, into = os.pipe()
        parent = os.getpid()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # torch keeps idle threads; a child calls numpy only
                self.pid = os.fork()
        except OSError:
            os.close(self.out)
            os.close(into)
            raise
        if self.pid == 0:
            _child(work, into, parent)
        os.close(into)

    def stalled(self) -> bool:
        """Whether nothing has happened for too long."""
        now, seen = time.monotonic(), int(self.progress[0]) + len(self.received)
        if seen != self.seen:
            self.seen, self.moved = seen, now
        return now - self.moved > STALLED

    def answer(self) -> Answer | None:
        """What was answered, once the pipe is closed."""
        size = int.from_bytes(self.received[:8], "little")
        if len(self.received) < 8 or len(self.received) < 8 + size:
            raise WorkerLost("a process of the emulator ended without an answer")
        return pickle.loads(memoryview(self.received)[8 : 8 + size])

    def end(self) -> None:
        """Ends the child if it still runs."""
        os.close(self.out)
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def _child(work: Callable[[], Any], into: int, parent: int) -> None:
    """Works, answers and ends; never returns. Not a word to the agent's channel, no exit handlers."""
    try:
        if _LIBC is not None:
            _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            gc.disable()
            try:
                answer = work()
            except Exception:
                answer = None
            data = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
            with os.fdopen(into, "wb") as file:
                file.write(len(data).to_bytes(8, "little"))
                file.write(data)
    finally:
        os._exit(0)


def _gather(workers: list[_Worker]) -> list[Answer] | None:
    """All answers, or None as soon as one is None."""
    answers: dict[int, Answer] = {}
    with selectors.DefaultSelector() as selector:
        for k, worker in enumerate(workers):
            selector.register(worker.out, selectors.EVENT_READ, k)
        while len(answers) < len(workers):
            for key, _ in selector.select(LOOK):
                worker = workers[key.data]
                data = os.read(worker.out, 1 << 20)
                worker.received += data
                if not data:
                    selector.unregister(worker.out)
                    answer = worker.answer()
                    if answer is None:
                        return None
                    answers[key.data] = answer
            if any(k not in answers and worker.stalled() for k, worker in enumerate(workers)):
                raise WorkerLost(f"a process of the emulator made no step for {STALLED:g} s")
    return [answers[k] for k in range(len(workers))]
