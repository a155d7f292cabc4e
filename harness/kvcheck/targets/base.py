"""What a bisect walks over, and how one step of it is entered: the part that images, commits and package versions have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from kvcheck.execute.launch import Launcher


class Unavailable(Exception):
    """A candidate that cannot be tried: a pull, a build or a start-up that failed. It is *unknown*, never bad; the text says why."""


class RangeError(Exception):
    """A range that cannot be walked: an end that is not there, no candidate between the ends. The text is for the user."""


@dataclass(frozen=True)
class Candidate:
    """One step of the range.

    Args:
        key: what its content goes by, such as an image digest, a commit or a version: answers are remembered under it.
        label: what people call it: a tag, a short commit, a version.
        date: when it came about, ISO 8601, or None.
        names: other labels of the same content.
        variant: what must not change in silence along the range, such as a ROCm version and a card; "" when there is none.
    """

    key: str
    label: str
    date: str | None = None
    names: tuple[str, ...] = ()
    variant: str = ""


@dataclass(frozen=True)
class Place:
    """Where the cases of one candidate run.

    Args:
        launcher: makes the launcher of its agents from a scratch folder; None is a process on this machine.
        python: interpreter of a process on this machine, or None for the run's own.
        providers: stand in for the case file's; empty leaves those.
        variables: of the agents' environment, beyond the user's.
        facts: what the report says of this step, beside the verdict.
    """

    launcher: Callable[[Path], Launcher] | None = None
    python: str | None = None
    providers: tuple[str, ...] = ()
    variables: Mapping[str, str | None] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


class Target(Protocol):
    """A range of candidates, oldest first, the ends that the user named included.

    Attributes:
        kind: images, git or wheels.
    """

    kind: str

    def candidates(self) -> Sequence[Candidate]:
        """Every candidate from one end to the other, in order; the first and the last are the ends.

        Raises:
            RangeError: an end is not there, or nothing lies between.
        """

    def notes(self) -> Sequence[str]:
        """What the user has to know of the range: missing nights, variants, retention, tags translated."""

    def place(self, candidate: Candidate) -> AbstractContextManager[Place]:
        """Makes a candidate ready to run cases in, and clears up behind it.

        Raises:
            Unavailable: it cannot be made ready, and why.
        """

    def ahead(self, candidates: Sequence[Candidate]) -> None:
        """The candidates that are likely to be asked for next, the likeliest first; returns at once."""

    def contents(self, candidate: Candidate) -> Mapping[str, str]:
        """Packages of a candidate and what each is (version, commit), as far as it can be told without running a case."""

    def deeper(self, good: Candidate, bad: Candidate) -> Sequence[Sequence[str]]:
        """Commands that look inside the difference of two neighbours, as words; the first is the one that `--deep` runs."""

    def plan(self) -> Mapping[str, Any]:
        """What a bisect of this range would take, for `--dry-run`: bytes to pull, what is here already."""

    def close(self) -> None:
        """Removes what this target made; a second time does nothing."""
