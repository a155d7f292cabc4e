"""Where the cases of a run are executed, as the command line says it: here, in images, or behind another command."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kvcheck.execute.containers.engine import Mount
from kvcheck.execute.errors import UsageError
from kvcheck.execute.prefix import prefix_words


@dataclass(frozen=True)
class Where:
    """Options of every command that runs cases.

    Attributes:
        images: container images; empty is this machine.
        prefix: a command that agents are started behind, or None.
        engine: name or path of a container engine; None takes the first that works.
        engine_options: the engine's words in place of those for this host's devices.
        mounts: DIR or DIR:AT, what agents in containers see of this machine.
    """

    images: tuple[str, ...] = ()
    prefix: str | None = None
    engine: str | None = None
    engine_options: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()

    @property
    def here(self) -> bool:
        """Whether agents are processes of this machine."""
        return not self.images and self.prefix is None

    def check(self) -> None:
        """Refuses what cannot be.

        Raises:
            UsageError: options that exclude or need each other, a path that is not there.
        """
        if self.images and self.prefix is not None:
            raise UsageError("--exec: expected it without --image: the command behind it starts where it leads, got both")
        for name, value in (("--engine", self.engine), ("--engine-option", self.engine_options), ("--mount", self.mounts)):
            if value and not self.images:
                raise UsageError(f"{name}: expected --image beside it, got none")
        self.words_of_prefix()
        self.mounted()

    def words_of_prefix(self) -> list[str]:
        """The prefix in words; none where there is no prefix.

        Raises:
            UsageError: it cannot be read as a shell would.
        """
        if self.prefix is None:
            return []
        try:
            return prefix_words(self.prefix)
        except ValueError as error:
            raise UsageError(f"--exec: {error}") from error

    def mounted(self) -> list[Mount]:
        """What agents see of this machine, read-only.

        Raises:
            UsageError: a path that is not there, or a place that is not absolute.
        """
        found = []
        for text in self.mounts:
            source, _, target = text.partition(":")
            path = os.path.abspath(os.path.expanduser(source))
            if not os.path.exists(path):
                raise UsageError(f"--mount: expected DIR or DIR:AT with a DIR that is there, got {text!r}")
            if target and not target.startswith("/"):
                raise UsageError(f"--mount: expected an absolute path after the colon, got {text!r}")
            found.append(Mount(Path(path), target or path))
        return found

    def again(self) -> list[str]:
        """The words that say the same again."""
        words = [word for image in self.images for word in ("--image", image)]
        words += ["--exec", self.prefix] if self.prefix is not None else []
        words += ["--engine", self.engine] if self.engine else []
        words += [f"--engine-option={word}" for word in self.engine_options]
        return words + [word for text in self.mounts for word in ("--mount", text)]


HERE = Where()
