"""Runs cases on this machine: agents in processes, as many at once as there are jobs, every case its row."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

from kvcheck.agent import specs
from kvcheck.agent.protocol import NOT_JUDGED, parse_fault, parse_provider
from kvcheck.cases.model import Case
from kvcheck.execute import memory, repeats, rows, zipapp
from kvcheck.execute.errors import StartError
from kvcheck.execute.journal import Rows
from kvcheck.execute.launch import Launcher, ProcessLauncher, absolute_provider, choose_python
from kvcheck.execute.pool import NONE, SPARE, Pool, Variables
from kvcheck.execute.supervisor import Agent, Ended

SHARED = "shared"
NOT_YET_AT_THE_KERNEL = (None, "inputs")


class Executor:
    """Agents on this machine, supervised. `submit` may be called from any thread; results do not depend on `jobs`.

    Args:
        device: auto, cpu, cuda, cuda:N, gfx942-emulated or gfx950-emulated.
        python: interpreter of the agents, "auto", or None (see `choose_python`).
        jobs: cases at once; None is one on a GPU and up to four on a CPU.
        timeout: seconds a case may take, loading and compiling left out.
        startup_timeout: seconds an agent may take to get ready, and a case to load or compile.
        journal: rows that are there already are given back, new ones are written to it; the caller closes it.
        threads: torch threads of an agent; another number changes the last bits of sums.
        memory_limit: bytes a CPU agent may map beyond start-up; None is a fair share of what is available, 0 is no limit.
        launcher: where agents run, or what makes that from a scratch folder; None is a process here, from the zip this builds.
        sanitizer_off: kinds of findings that an emulated device does not look for.
        spare: whether an agent is kept warm for the case that ends one.

    Attributes:
        environment: what the first ready agent reported; empty before that.
        jobs: cases at once; 0 while that waits for the first agent to tell its device.

    Raises:
        UsageError: no such interpreter.
        StartError: no interpreter with torch.
    """

    def __init__(
        self,
        device: str = "auto",
        python: str | None = None,
        jobs: int | None = None,
        timeout: float = 120.0,
        startup_timeout: float = 600.0,
        journal: Rows | None = None,
        threads: int = 1,
        memory_limit: int | None = None,
        launcher: Launcher | Callable[[Path], Launcher] | None = None,
        sanitizer_off: tuple[str, ...] = (),
        spare: bool = True,
    ) -> None:
        self.environment: dict[str, Any] = {}
        self.jobs = jobs or 0
        self._timeout = timeout
        self._startup_timeout = startup_timeout
        self._journal = journal
        self._spare = spare
        interpreter = choose_python(python) if launcher is None else ""
        self._folder = Path(tempfile.mkdtemp(prefix="kvcheck-"))
        if launcher is None:
            neutral = self._folder / "cwd"
            neutral.mkdir()
            launcher = ProcessLauncher(interpreter, zipapp.build(self._folder), neutral, threads)
        self._launcher: Launcher = self._made(launcher) if callable(launcher) else launcher
        most = jobs or min(memory.cores(), 4)
        limit = memory.share(most) if memory_limit is None else memory_limit
        self._arguments = ["--device", device, "--memory-limit", str(limit)]
        self._arguments += [word for kind in sanitizer_off for word in ("--sanitizer-off", kind)]
        if device.endswith("-emulated"):
            self._arguments += ["--cores", str(max(memory.cores() // most, 1))]
        self._pool = Pool(self._start, idle=most + 2)
        self._pending: dict[str, deque[tuple[int, Case, str, Future[dict[str, Any]]]]] = {}
        self._count = 0
        self._change = threading.Condition()
        self._ready = threading.Event()
        self._closed = False
        self._workers = [threading.Thread(target=self._first_worker, name="kvcheck-worker-0", daemon=True)]
        self._workers[0].start()

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def submit(self, case: Case) -> Future[dict[str, Any]]:
        """Takes a case.

        Returns:
            future: of the case's row, all of CONTRACT's keys but `repro`. It raises CancelledError when the run is closed first.
        """
        future: Future[dict[str, Any]] = Future()
        row = None if self._journal is None else self._journal.get(case)
        if row is not None:
            future.set_result(row)
            return future
        provider = absolute_provider(case.provider)
        with self._change:
            if self._closed:
                future.cancel()
                return future
            self._count += 1
            self._pending.setdefault(world_of(provider, case.variables), deque()).append((self._count, case, provider, future))
            self._change.notify()
        return future

    def wait_ready(self) -> dict[str, Any]:
        """The environment, once the first agent is ready.

        Raises:
            StartError: none can be started here, and why.
        """
        self._ready.wait()
        if not self.environment:
            raise self._pool.broken or StartError("the run was closed before an agent was ready", final=True)
        return self.environment

    def doctor(self) -> list[dict[str, Any]]:
        """Which providers can run here, asked of an agent that is ended afterwards, since it has loaded all of them.

        Raises:
            StartError: no agent can be started, or it did not survive the question.
        """
        self.wait_ready()
        agent = self._pool.fresh()
        try:
            return agent.ask_providers(self._startup_timeout)
        finally:
            self._pool.end(agent)

    def close(self) -> None:
        """Ends agents and drops what was not judged; a second time does nothing."""
        with self._change:
            if self._closed:
                return
            self._closed = True
            waiting = [entry[-1] for queue in self._pending.values() for entry in queue]
            self._pending.clear()
            self._change.notify_all()
        for future in waiting:
            future.cancel()
        self._ready.set()
        self._pool.close()
        for worker in self._workers:
            worker.join(10.0)
        self._launcher.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _made(self, make: Callable[[Path], Launcher]) -> Launcher:
        try:
            return make(self._folder)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def _start(self, variables: Variables) -> Agent:
        return Agent(self._launcher, self._arguments, self._startup_timeout, str(self._folder), variables)

    def _first_worker(self) -> None:
        """Learns from the first agent what device this is, and so how many more workers there are to be."""
        try:
            agent = self._pool.fresh()
            self._pool.give(agent, SPARE)
            self.environment = dict(agent.environment or {})
            self.jobs = self.jobs or memory.default_jobs(self.environment.get("device", {}).get("type", "cpu"))
        except StartError:
            self.jobs = self.jobs or 1  # every case is answered with the reason
        with self._change:
            if not self._closed:
                others = [threading.Thread(target=self._work, name=f"kvcheck-worker-{i}", daemon=True) for i in range(1, self.jobs)]
                self._workers += others
                for worker in others:
                    worker.start()
        self._ready.set()
        self._work()

    def _work(self) -> None:
        while (entry := self._next()) is not None:
            case, provider, future = entry
            if not future.set_running_or_notify_cancel():
                continue
            try:
                row = self._judge(case, provider)
                if row is None:
                    future.set_exception(CancelledError())
                    continue
                if self._journal is not None:
                    self._journal.add(case, row)
                future.set_result(row)
            except BaseException as error:  # a fault of ours: the caller is told, and does not wait for ever
                future.set_exception(error)

    def _next(self) -> tuple[Case, str, Future[dict[str, Any]]] | None:
        """The oldest case of a world that an idle agent serves, else the oldest; None when the run is over."""
        with self._change:
            while not self._pending:
                if self._closed:
                    return None
                self._change.wait()
            served = self._pool.worlds() & self._pending.keys()
            world = min(served or self._pending, key=lambda name: self._pending[name][0][0])
            _, case, provider, future = self._pending[world].popleft()
            if not self._pending[world]:
                del self._pending[world]
            return case, provider, future

    def _judge(self, case: Case, provider: str) -> dict[str, Any] | None:
        if case.fresh == 1:
            return self._judge_once(case, provider)
        rows_ = []
        for _ in range(case.fresh):
            row = self._judge_once(case, provider, fresh=True)
            if row is None:
                return None
            rows_.append(row)
            if row["verdict"] in NOT_JUDGED:
                break
        return repeats.merged(case, rows_)

    def _judge_once(self, case: Case, provider: str, fresh: bool = False) -> dict[str, Any] | None:
        """The row of one run of a case; in a new process that is ended afterwards where it is to be fresh."""
        request = {**case.request(), "provider": provider, "limit_s": self._timeout}
        try:
            outcome = self._run(request, world_of(provider, case.variables), case.variables, fresh)
        except StartError as error:
            return None if self._closed else rows.complete(case, {"verdict": "harness_error", "message": str(error)})
        if self._closed and isinstance(outcome, Ended):
            return None
        row = rows.of_end(case, outcome) if isinstance(outcome, Ended) else rows.complete(case, outcome)
        unknown = isinstance(outcome, Ended) or outcome.get("premise", "unknown") == "unknown"
        if unknown and row["verdict"] in ("crash", "timeout"):
            row = self._hold_to_premise(case, request, row)
        return None if self._closed and unknown else row

    def _run(self, request: dict[str, Any], world: str, variables: Variables = NONE, fresh: bool = False) -> dict[str, Any] | Ended:
        """Runs a request; once more in a new process where the first died of what an earlier case had left in it."""
        agent = self._pool.fresh(variables) if fresh else self._pool.take(world, variables)
        inherited = agent.cases > 0
        outcome = self._run_on(agent, request, world, keep=not fresh)
        if isinstance(outcome, Ended) and inherited and outcome.phase in NOT_YET_AT_THE_KERNEL and not self._closed:
            outcome = self._run_on(self._pool.fresh(variables), request, world)
        return outcome

    def _run_on(self, agent: Agent, request: dict[str, Any], world: str, keep: bool = True) -> dict[str, Any] | Ended:
        outcome = agent.run(request, self._timeout)
        if not keep or isinstance(outcome, Ended) or rows.tainted(outcome):
            self._pool.end(agent)
        else:
            self._pool.give(agent, world)
        if self._spare and not self._closed:
            self._pool.warm()
        return outcome

    def _hold_to_premise(self, case: Case, request: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
        """Whether the case was one to blame a kernel for: its premise is looked at without the kernel."""
        try:
            found = self._run({**request, "premise_only": True}, SHARED)
        except StartError:
            return row
        if isinstance(found, Ended) or found.get("premise") not in ("fails", "holds"):
            return row
        if found["premise"] == "fails":
            return rows.failed_premise(case, row, found)
        return {**row, "params": found.get("params", row["params"]), "input_fingerprint": found.get("input_fingerprint")}


def world_of(provider: str, variables: Variables = NONE) -> str:
    """Which agents serve a provider: those of its own, when it is a user's file or its SPEC asks for that, else the shared ones; of
    these the ones that were started with the same variables."""
    if variables:
        return f"{world_of(provider)} with {sorted(variables.items())}"
    name, _, _ = parse_provider(provider)
    if name.endswith(".py"):
        return provider
    try:
        if name.startswith("fault:"):
            fault = parse_fault(name.removeprefix("fault:").partition("+")[0])[0]
            name = specs.load("faults", fault).data["base"]
        return provider if specs.load("providers", name).data.get("process") == "own" else SHARED
    except (KeyError, ValueError):
        return SHARED
