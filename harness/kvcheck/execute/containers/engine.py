"""What every container engine offers: a command line that runs something inside an image, and the images that are here."""

from __future__ import annotations

import abc
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvcheck.execute.errors import StartError

CALL_TIMEOUT = 120.0
PULL_TIMEOUT = 6 * 3600.0
"""Seconds for a pull: nightly images of GPU software hold 10 to 20 GB compressed."""


class ImageMissing(StartError):
    """The image is not on this machine."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, final=True)


class PullFailed(StartError):
    """The image could not be fetched."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, final=True)


@dataclass(frozen=True)
class Mount:
    """A host folder or file that a container sees.

    Args:
        source: on this machine.
        target: where it is inside.
        writable: whether the container may write to it.
    """

    source: Path
    target: str
    writable: bool = False

    def __str__(self) -> str:
        return f"{self.source}:{self.target}" + ("" if self.writable else ":ro")


@dataclass(frozen=True)
class Image:
    """An image on this machine.

    Args:
        reference: as it was asked for.
        id: hash of its configuration: the same for the same content, on every machine.
        digest: hash of its manifest, as its registry has it; None for one that never saw a registry.
        tags: names of it on this machine.
        created: ISO 8601, or None.
        labels: of its configuration.
        env: variables that it sets.
        size: bytes on this machine, unpacked; None when the engine does not say.
    """

    reference: str
    id: str
    digest: str | None = None
    tags: tuple[str, ...] = ()
    created: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    size: int | None = None

    @property
    def key(self) -> str:
        """What its content goes by."""
        return self.id

    @property
    def pinned(self) -> str:
        """What to type to get this very image: NAME@DIGEST where a registry has it, else the reference."""
        by_id = self.id.removeprefix("sha256:").startswith(self.reference.removeprefix("sha256:"))
        if not self.digest or "@" in self.reference or by_id:
            return self.reference
        return f"{repository(self.reference)}@{self.digest}"


class Engine(abc.ABC):
    """A container engine, reached by its command line.

    Args:
        path: the program.

    Attributes:
        name: docker, podman, apptainer or singularity.
        keeps_containers: whether a container goes on when the client that started it is ended.
    """

    name = ""
    keeps_containers = True

    def __init__(self, path: str) -> None:
        self.path = path

    @abc.abstractmethod
    def problem(self) -> str | None:
        """Why the engine cannot be used here; None when it can."""

    @abc.abstractmethod
    def command(
        self,
        image: str,
        argv: Sequence[str],
        *,
        mounts: Sequence[Mount] = (),
        variables: Mapping[str, str] = {},
        name: str | None = None,
        labels: Mapping[str, str] = {},
        devices: Sequence[str] = (),
        stdin: bool = True,
    ) -> list[str]:
        """The words that run something inside an image: network off, entry point overridden, in `/`, gone when it ends.

        Args:
            image: reference or id.
            argv: program and its arguments, inside.
            mounts: what it sees of this machine.
            variables: set inside, over the image's own.
            name: of the container.
            labels: of the container.
            devices: the engine's words for what the program may reach of the host's devices.
            stdin: whether it gets the caller's standard input.
        """

    @abc.abstractmethod
    def inspect(self, image: str) -> Image:
        """What is known of a local image.

        Raises:
            ImageMissing: it is not here.
        """

    @abc.abstractmethod
    def images(self) -> list[Image]:
        """The images on this machine."""

    @abc.abstractmethod
    def pull(self, reference: str, report: Callable[[str], None] | None = None, stop: threading.Event | None = None) -> Image:
        """Fetches an image.

        Args:
            reference: with a registry's name, or what the engine takes it for.
            report: told what is done.
            stop: set from another thread to give up.

        Raises:
            PullFailed: and what the engine said.
        """

    @abc.abstractmethod
    def remove(self, image_id: str) -> None:
        """Removes an image that no container uses.

        Raises:
            StartError: the engine did not.
        """

    def remove_container(self, name: str) -> None:
        """Ends and removes a container; one that is gone already is no error, and some engines keep none."""
        return

    def remove_own(self, owner: str) -> None:
        """Ends and removes every container of an identity."""
        return

    def remove_leftovers(self) -> list[str]:
        """Ends and removes the containers of kvchecks that are dead, never a live one's.

        Returns:
            names: of the containers that are gone.
        """
        return []

    def environment(self) -> dict[str, str]:
        """Variables that its command is run with."""
        return dict(os.environ)

    def call(self, *words: str, timeout: float = CALL_TIMEOUT) -> subprocess.CompletedProcess[str]:
        """One of the engine's own commands, whatever becomes of it; a command that does not end in time has the status 124."""
        command = [self.path, *words]
        try:
            return subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=timeout, check=False,
                env=self.environment(), cwd=os.sep,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, "", f"no answer within {timeout:g} s")
        except OSError as error:
            return subprocess.CompletedProcess(command, 127, "", str(error))

    def call_until(self, stop: threading.Event, *words: str, timeout: float = CALL_TIMEOUT) -> subprocess.CompletedProcess[str]:
        """As `call`, and ended with status 130 when another thread sets `stop`."""
        command = [self.path, *words]
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, errors="replace",
                env=self.environment(), cwd=os.sep, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            return subprocess.CompletedProcess(command, 127, "", str(error))
        waited = 0.0
        while True:
            try:
                out, err = process.communicate(timeout=0.2)
                return subprocess.CompletedProcess(command, process.returncode, out, err)
            except subprocess.TimeoutExpired:
                waited += 0.2
            if stop.is_set() or waited > timeout:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                why = (130, "given up") if stop.is_set() else (124, f"no answer within {timeout:g} s")
                return subprocess.CompletedProcess(command, why[0], "", why[1])

    def ensure(self, reference: str, report: Callable[[str], None] | None = None) -> Image:
        """The image: the local one, else it is fetched.

        Raises:
            PullFailed: it is neither here nor to be had.
        """
        try:
            return self.inspect(reference)
        except ImageMissing:
            return self.pull(reference, report)


def repository(reference: str) -> str:
    """A reference without tag and digest: registry/name of registry/name:tag@sha256:..."""
    name = reference.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return head + slash + last.partition(":")[0]


def said(answer: subprocess.CompletedProcess[Any]) -> str:
    """What a failed command said, in one line: its last words."""
    text = answer.stderr or answer.stdout or ""
    text = text.decode(errors="replace") if isinstance(text, bytes) else text
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [f"exit status {answer.returncode}"]
    return lines[-1].removeprefix("Error: ").removeprefix("Error response from daemon: ")[:500]
