"""One agent process and everything that can happen to it while it runs a case."""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kvcheck.agent.protocol import OFF_THE_CLOCK, PHASES, PROTOCOL, VERDICTS, decode, encode
from kvcheck.execute.errors import StartError
from kvcheck.execute.launch import MARK, Launcher
from kvcheck.execute.stderr import Tail

LONGEST_LINE = 16 << 20
QUEUE = 256
KILLED = " (not sent by kvcheck: the kernel's own doing, or the system was out of memory)"
PARTING = 2.0
"""Seconds an agent gets to leave by itself, and pipes get to run dry after it ended."""


@dataclass(frozen=True)
class Ended:
    """How a case ended that has no row: the process died, hung, or said nonsense.

    Args:
        how: "died", "hung" or "nonsense".
        what: the sentence for it.
        phase: the last phase that was announced, or None.
        output: the end of what the process printed during the case.
    """

    how: str
    what: str
    phase: str | None
    output: str


class Agent:
    """A started agent. One thread at a time may use it; its pipes are read by threads of its own.

    Args:
        launcher: where it runs.
        arguments: the agent's options.
        startup_timeout: seconds to get ready in, and to load or compile in.
        hidden: a folder to leave out of quoted paths.
        variables: of its environment, beyond the user's; None takes one away.

    Attributes:
        environment: what it reported when it was ready, or None before that.
        cases: how many cases it was given.

    Raises:
        StartError: the process could not be started.
    """

    def __init__(
        self,
        launcher: Launcher,
        arguments: list[str],
        startup_timeout: float,
        hidden: str = "",
        variables: Mapping[str, str | None] = MappingProxyType({}),
    ) -> None:
        self.environment: dict[str, Any] | None = None
        self.cases = 0
        self._startup_timeout = startup_timeout
        self._started = time.monotonic()
        self._hidden = hidden
        self._mark = secrets.token_hex(8)
        self._tickets = 0
        self._tail = Tail()
        self._events: queue.Queue[tuple[str, Any]] = queue.Queue(QUEUE)
        self._abandoned = threading.Event()
        self._launcher = launcher
        try:
            self._process = launcher.launch(arguments, self._mark, variables)
        except OSError as error:
            raise StartError(f"an agent could not be started: {error}") from error
        self._readers = [threading.Thread(target=target, daemon=True) for target in (self._read_answers, self._read_output)]
        self._waiter = threading.Thread(target=self._await_end, daemon=True)
        for thread in (*self._readers, self._waiter):
            thread.start()

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.returncode is None and self._waiter.is_alive()

    def wait_ready(self) -> dict[str, Any]:
        """The environment that the agent reports once torch is imported.

        Raises:
            StartError: it ended, hung or refused instead. It is ended then.
        """
        if self.environment is not None:
            return self.environment
        try:
            kind, value = self._next(self._started + self._startup_timeout)
            if kind == "message" and value["type"] == "ready" and value.get("protocol") == PROTOCOL:
                self.environment = dict(value["environment"])
                return self.environment
            if kind == "message" and value["type"] == "failed":
                raise StartError(str(value.get("reason")), final=True)
            if kind == "message":
                raise StartError(f"the agent speaks another protocol: expected ready {PROTOCOL}, got {value}")
            said = self._tail.quote(self._hidden)
            what = {"end": value, "late": f"the agent was not ready within {self._startup_timeout:g} s"}.get(kind, f"{kind}: {value}")
            raise StartError(what + (f":\n{said}" if said else ""))
        except (StartError, KeyError, TypeError, ValueError) as error:
            self.kill()
            raise error if isinstance(error, StartError) else StartError(f"the agent's first message is not complete: {error!r}") from error

    def run(self, request: dict[str, Any], timeout: float) -> dict[str, Any] | Ended:
        """Runs one case on a ready agent.

        Args:
            request: the `case` message.
            timeout: seconds the case may take; the clock stands still while a provider is loaded or a kernel compiled.

        Returns:
            row: the agent's row; or how the process ended, which it then has.
        """
        self._tail.clear()
        self.cases += 1
        ticket = self._send(request)
        phase, left, spent_in_kernel = None, timeout, 0.0
        while True:
            begun = time.monotonic()
            off = phase in OFF_THE_CLOCK
            kind, value = self._next(begun + (self._startup_timeout if off else left))
            elapsed = time.monotonic() - begun
            left -= 0 if off else elapsed
            spent_in_kernel += elapsed if phase == "kernel" else 0
            if kind == "message" and value["type"] == "phase" and value.get("phase") in PHASES:
                phase = value["phase"]
            elif kind == "message" and value["type"] == "result" and value.get("ticket") == ticket and _is_row(value.get("row")):
                return value["row"]
            elif kind == "late":
                limit = f"{self._startup_timeout:g} s to {phase}" if off else f"{timeout:g} s"
                note = "" if phase == "kernel" or off else f" (of which the kernel took {spent_in_kernel:.0f} s)"
                return self._end("hung", f"not finished within {limit}{note}", phase)
            elif kind == "end":
                return self._end("died", value, phase)
            else:
                return self._end("nonsense", f"the agent answered nonsense: {str(value)[:200]!r}", phase)

    def ask_providers(self, timeout: float) -> list[dict[str, Any]]:
        """What the agent says about every provider here.

        Raises:
            StartError: it ended or hung over the question.
        """
        ticket = self._send({"type": "doctor"})
        kind, value = self._next(time.monotonic() + timeout)
        if kind == "message" and value["type"] == "doctor" and value.get("ticket") == ticket and isinstance(value.get("providers"), list):
            return value["providers"]
        ended = self._end("died", str(value or f"no answer within {timeout:g} s"), None)
        raise StartError(f"the agent did not survive looking at the providers: {ended.what}\n{ended.output}".strip())

    def leave(self) -> None:
        """Asks an idle agent to leave; one that is not ready yet is ended."""
        if self.environment is None:
            self.kill()
        elif self.alive:
            self._abandoned.set()
            self._send({"type": "exit"})

    def close(self) -> None:
        """Lets the agent leave, and ends it when it does not."""
        self.leave()
        self._waiter.join(PARTING)
        self.kill()

    def kill(self) -> None:
        """Ends the process and every child it left behind; returns when it is gone, or is beyond reach of a signal."""
        self._abandoned.set()
        if self._process.returncode is None:
            _end_group(self._process.pid)
        self._launcher.end(self._mark)
        self._waiter.join(PARTING)
        _end_strays(self._mark)
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _send(self, message: dict[str, Any]) -> int:
        self._tickets += 1
        with contextlib.suppress(OSError):  # it is dying: the waiter says so next
            self._process.stdin.write(encode({**message, "ticket": self._tickets}))
        return self._tickets

    def _end(self, how: str, what: str, phase: str | None) -> Ended:
        self.kill()
        return Ended(how, what, phase, self._tail.quote(self._hidden))

    def _next(self, deadline: float) -> tuple[str, Any]:
        try:
            return self._events.get(timeout=max(deadline - time.monotonic(), 0.001))
        except queue.Empty:
            return "late", None

    def _put(self, kind: str, value: Any) -> None:
        """Hands an event over; waits while nobody takes any, so that a flood stops at the pipe.

        The end is always told: whoever waits for an answer of an agent that another thread ended must hear of it.
        """
        while not self._abandoned.is_set():
            try:
                return self._events.put((kind, value), timeout=0.2)
            except queue.Full:
                continue
        while kind == "end":
            try:
                return self._events.put_nowait((kind, value))
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self._events.get_nowait()

    def _read_answers(self) -> None:
        buffer = b""
        while data := _read(self._process.stdout):
            *lines, buffer = (buffer + data).split(b"\n") if b"\n" in data else (buffer + data,)
            for line in lines:
                try:
                    self._put("message", decode(line))
                except ValueError:
                    self._put("nonsense", line[:1000])
            if len(buffer) > LONGEST_LINE:
                self._put("nonsense", buffer[:1000])
                buffer = b""
        self._process.stdout.close()

    def _read_output(self) -> None:
        while data := _read(self._process.stderr):
            self._tail.add(data)
        self._process.stderr.close()

    def _await_end(self) -> None:
        """Says how the process ended, after everything it had said.

        Its children are ended before it is reaped: until then its process group cannot belong to anybody else.
        """
        pid = self._process.pid
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        _end_group(pid)
        deadline = time.monotonic() + PARTING
        for reader in self._readers:
            reader.join(max(deadline - time.monotonic(), 0.05))
        self._put("end", describe_exit(self._process.wait()))


def describe_exit(status: int) -> str:
    """How a process ended, in words; signals by name."""
    if status >= 0:
        return f"the process exited by itself with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"SIGKILL{KILLED}" if name == "SIGKILL" else name


def _is_row(row: Any) -> bool:
    return isinstance(row, dict) and row.get("verdict") in VERDICTS and isinstance(row.get("message", ""), (str, type(None)))


def _read(pipe: Any) -> bytes:
    try:
        return os.read(pipe.fileno(), 1 << 16)
    except (OSError, ValueError):
        return b""


def _end_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # all of it is gone already
        os.killpg(pid, signal.SIGKILL)


def _end_strays(mark: str) -> None:
    """Ends what left the agent's process group: every process whose starting environment carries the agent's mark."""
    wanted = f"{MARK}={mark}".encode()
    try:
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return  # no /proc: the process group was all there is to go by
    for pid in pids:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    os.kill(pid, signal.SIGKILL)
        except OSError:
            continue  # somebody else's, or gone meanwhile
