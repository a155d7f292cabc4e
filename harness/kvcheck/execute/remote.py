"""An agent behind a client: a container's engine, ssh, srun. What the supervisor holds looks like a process with three pipes."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

PAUSE = 0.004
"""Seconds between two looks at a file of answers."""

LONGEST_NOISE = 1 << 16


class RemoteProcess:
    """A client process, and the agent that it leads to.

    Args:
        command: of the client.
        mark: every line meant for kvcheck has it.
        environment: of the client.
        answers: file in which answers appear; None when they come on the client's stdout.
        first: sent at once: the shell script.
        then: sent when the script says `boot`.
        heard: told the interpreter that was found.

    Attributes:
        pid: of the client, which leads a process group of its own.
        stdin, stdout, stderr: requests, answers without anything else, and all that was printed.
        returncode: None until `wait` came back.
        settled: whether the agent's own end was reported.
    """

    def __init__(
        self,
        command: list[str],
        mark: str,
        *,
        environment: Mapping[str, str] | None = None,
        answers: Path | None = None,
        first: bytes = b"",
        then: tuple[bytes, ...] = (),
        heard: Callable[[str], None] | None = None,
    ) -> None:
        self._token = f"kvcheck:{mark} ".encode()
        self._then = then
        self._heard = heard
        self._tried: list[str] = []
        self._status: int | None = None
        self.settled = False
        self.returncode: int | None = None
        out, self._out = os.pipe()
        err, self._err = os.pipe()
        self.stdout, self.stderr = io.FileIO(out, "rb"), io.FileIO(err, "rb")
        try:
            self._client = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=self._err if answers else subprocess.PIPE, stderr=self._err, cwd=os.sep,
                env=None if environment is None else dict(environment), start_new_session=True, bufsize=0,
            )  # fmt: skip
        except OSError:
            for descriptor in (out, err, self._out, self._err):
                os.close(descriptor)
            raise
        self.pid = self._client.pid
        self.stdin = self._client.stdin
        self._answers = answers
        threading.Thread(target=self._pump, args=(first,), daemon=True).start()

    def wait(self) -> int:
        """How the agent ended, or the client where that is not known: negative for a signal."""
        status = self._client.wait()
        if self._status is not None:
            status = self._status
        elif 128 < status <= 128 + 64:
            status = 128 - status  # a shell's or an engine's way to say that a signal ended it
        self.returncode = status
        return status

    def _pump(self, first: bytes) -> None:
        try:
            self._send(first)
            for line in self._file_lines() if self._answers else self._pipe_lines():
                self._take(line)
        finally:
            os.close(self._out)
            os.close(self._err)
            if self._client.stdout:
                self._client.stdout.close()

    def _take(self, line: bytes) -> None:
        noise, token, text = line.partition(self._token)
        if not token:
            return self._noise(noise)
        if text.startswith(b"{"):
            return self._write(self._out, text + b"\n")
        word, _, rest = text.decode(errors="replace").strip().partition(" ")
        if word == "boot":
            for data in self._then:
                self._send(b"%d\n" % len(data) + data)
        elif word == "python" and self._heard:
            self._heard(rest)
        elif word == "tried":
            self._tried.append(rest)
        elif word == "nopython":
            self._write(self._out, json.dumps({"type": "failed", "reason": no_python(self._tried)}).encode() + b"\n")
        elif word == "end" and rest.lstrip("-").isdigit():
            self._status, self.settled = int(rest), True

    def _pipe_lines(self):
        buffer = b""
        while data := os.read(self._client.stdout.fileno(), 1 << 16):
            *lines, buffer = (buffer + data).split(b"\n") if b"\n" in data else (buffer + data,)
            yield from lines
            if len(buffer) > LONGEST_NOISE and self._token not in buffer:
                self._noise(buffer)
                buffer = b""
        if buffer:
            yield buffer

    def _file_lines(self):
        buffer = b""
        with open(self._answers, "rb", buffering=0) as file:
            while True:
                over = self._is_over()  # asked first: what it wrote before it ended is read after
                data = file.read(1 << 20)
                if data:
                    *lines, buffer = (buffer + data).split(b"\n") if b"\n" in data else (buffer + data,)
                    yield from lines
                elif over:
                    return
                else:
                    time.sleep(PAUSE)

    def _is_over(self) -> bool:
        """Whether the client has ended; it is left for the supervisor to reap."""
        if self._client.returncode is not None:
            return True
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
        except ChildProcessError:
            return True

    def _noise(self, line: bytes) -> None:
        self._write(self._err, line + b"\n")

    def _send(self, data: bytes) -> None:
        self._write(self.stdin.fileno() if not self.stdin.closed else -1, data)

    @staticmethod
    def _write(target: int, data: bytes) -> None:
        with contextlib.suppress(OSError):  # nobody reads there any more
            while data:
                data = data[os.write(target, data) :]


def no_python(tried: list[str]) -> str:
    """Why no agent can run there: every Python that was asked, and what it said."""
    if not tried:
        return "there is no Python"
    return "no Python there imports torch:\n  " + "\n  ".join(tried)
