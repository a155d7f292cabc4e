"""The agents of one run: kept by what they have loaded, one spare warming up, the longest idle ended first."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import MappingProxyType

from kvcheck.execute import memory
from kvcheck.execute.errors import StartError
from kvcheck.execute.supervisor import Agent

Variables = Mapping[str, str | None]

NONE: Variables = MappingProxyType({})

TRIES = 2
"""Start-ups that may fail in a row before it is taken that no agent can run here."""

NOBODY = "\0"
"""World that no idle agent is ever of."""

SPARE = ""
"""World of an agent that has loaded nothing yet."""


class Pool:
    """Agents by the world they serve: a provider that wants a process of its own, or "shared".

    Args:
        start: starts one agent, with variables of its environment beyond the user's.
        idle: how many agents may wait, beside those at work.
    """

    def __init__(self, start: Callable[[Variables], Agent], idle: int) -> None:
        self._start = start
        self._most_idle = idle
        self._lock = threading.Lock()
        self._idle: OrderedDict[Agent, str] = OrderedDict()
        self._busy: set[Agent] = set()
        self._spare: Future[Agent] | None = None
        self._closed = False
        self._failures = 0
        self._broken: StartError | None = None
        # One thread starts every agent and lives as long as the run: an agent dies with the thread that started it.
        self._nursery = ThreadPoolExecutor(1, "kvcheck-nursery")

    @property
    def broken(self) -> StartError | None:
        """Why no agent can be started, once that is certain."""
        return self._broken

    def worlds(self) -> set[str]:
        """Worlds that an idle agent is there for."""
        with self._lock:
            return set(self._idle.values())

    def take(self, world: str, variables: Variables = NONE) -> Agent:
        """A ready agent for a world: an idle one of that world, else the spare, else a new one.

        Args:
            world: what it has loaded, and the variables it was started with.
            variables: of its environment, where it has to be started; the spare has none.

        Raises:
            StartError: none came up, and it is of no use to try again.
        """
        while True:
            found = self._take_idle(world, spare=not variables) or self._take_new(variables)
            if found is None or not self._is_ready(found):
                continue
            if found.alive:
                return found
            self.end(found)

    def fresh(self, variables: Variables = NONE) -> Agent:
        """A ready agent that has loaded nothing.

        Raises:
            StartError: none came up, and it is of no use to try again.
        """
        return self.take(NOBODY if variables else SPARE, variables)

    def give(self, agent: Agent, world: str) -> None:
        """Takes an agent back; the one that has been idle for longest goes when there are too many."""
        with self._lock:
            self._busy.discard(agent)
            self._idle[agent] = world
            surplus = [] if not self._closed and self._fits() else [self._idle.popitem(last=False)[0]]
        for old in surplus:
            old.close()

    def end(self, agent: Agent) -> None:
        """Ends an agent that is not to be used again."""
        agent.kill()
        with self._lock:
            self._busy.discard(agent)

    def warm(self) -> None:
        """Starts the spare in the background, where memory allows and there is none."""
        with self._lock:
            if self._closed or self._broken or self._spare or not memory.room_for_another():
                return
            self._spare = self._nursery.submit(self._start, NONE)

    def close(self) -> None:
        """Ends every agent, those at work included."""
        with self._lock:
            self._closed = True
            idle, busy, spare = list(self._idle), list(self._busy), self._spare
            self._idle.clear()
        self._nursery.shutdown(wait=False)
        if spare is not None:
            with contextlib.suppress(StartError):  # it is not there to be ended
                spare.result().kill()
        for agent in busy:
            agent.kill()
        for agent in idle:
            agent.leave()
        for agent in idle:
            agent.close()

    def _fits(self) -> bool:
        return len(self._idle) <= 1 or (len(self._idle) <= self._most_idle and memory.room_for_another())

    def _take_idle(self, world: str, spare: bool) -> Agent | None:
        with self._lock:
            for wanted in (world, SPARE) if spare else (world,):
                for agent in reversed(self._idle):
                    if self._idle[agent] == wanted:
                        del self._idle[agent]
                        self._busy.add(agent)
                        return agent
        return None

    def _take_new(self, variables: Variables) -> Agent | None:
        with self._lock:
            if self._broken:
                raise self._broken
            if self._closed:
                raise StartError("the run is over", final=True)
            pending = None
            if not variables:
                pending, self._spare = self._spare, None
            pending = pending or self._nursery.submit(self._start, variables)
        try:
            agent = pending.result()
        except StartError as error:
            self._failed(error)
            return None
        with self._lock:
            self._busy.add(agent)
            closed = self._closed
        if closed:
            agent.kill()
        return agent

    def _is_ready(self, agent: Agent) -> bool:
        try:
            agent.wait_ready()
        except StartError as error:
            with self._lock:
                self._busy.discard(agent)
            self._failed(error)
            return False
        with self._lock:
            self._failures = 0
        return True

    def _failed(self, error: StartError) -> None:
        """Counts a failed start-up, and raises when there is no use in another."""
        with self._lock:
            self._failures += 1
            if error.final or self._failures >= TRIES:
                tries = "" if error.final else f" ({self._failures} times in a row)"
                self._broken = StartError(f"no agent can be started{tries}: {error}", final=True)
        if self._broken:
            raise self._broken
