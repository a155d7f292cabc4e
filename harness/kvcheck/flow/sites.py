"""The places of one run, one after the other: each an executor's launcher, and what its rows are called."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kvcheck.cases.model import Case
from kvcheck.execute import rows
from kvcheck.execute.containers.engine import Engine, Image, repository
from kvcheck.execute.containers.find import find_engine
from kvcheck.execute.containers.launcher import ContainerLauncher, provider_mounts
from kvcheck.execute.errors import StartError
from kvcheck.execute.executor import Executor
from kvcheck.execute.journal import Journal, Part
from kvcheck.execute.launch import Launcher, choose_python
from kvcheck.execute.prefix import PrefixLauncher
from kvcheck.flow.options import Options

HASH = re.compile(r"(?<![0-9a-f])[0-9a-f]{20,}(?![0-9a-f])")
"""Commits and digests in names of images; twelve digits of one are enough to tell it."""

Note = Callable[..., None]


@dataclasses.dataclass
class Site:
    """One place of a run.

    Attributes:
        options: of the run, narrowed to this place.
        python: interpreter of agents on this machine.
        launcher: where agents run otherwise, or None.
        image: that they run in, or None.
        asked: the image as it was asked for.
        label: what tells this place's rows from another's; "" in a run of one place.
        problem: why nothing can run here, or None.
        shown: the command line that starts agents, once there is one.
    """

    options: Options
    python: str | None = None
    launcher: Callable[[Path], Launcher] | None = None
    image: Image | None = None
    asked: str | None = None
    label: str = ""
    problem: StartError | None = None
    shown: str | None = None

    def executor(self, journal: Journal | None = None, jobs: int | None = None) -> Executor:
        """Agents here, supervised."""
        options = self.options
        elsewhere = options.where.prefix is not None  # how much memory and how many cores there are is not known here
        part = Part(journal, self.image.id) if journal is not None and self.image else journal
        return Executor(
            options.device,
            self.python,
            jobs or options.jobs or (1 if elsewhere else None),
            options.timeout,
            journal=part,
            memory_limit=options.memory or (0 if elsewhere else None),
            launcher=self.launcher,
            sanitizer_off=options.sanitizer_off,
        )

    def mark(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row that says where it is from: `image`, and among several places a provider that no other row of its case has."""
        if self.asked is None:
            return row
        marked = {}
        for key, value in row.items():
            marked[key] = f"{value} in {self.label}" if key == "provider" and self.label else value
            if key == "provider":
                marked["image"] = self.facts()
        return marked

    def facts(self) -> dict[str, Any]:
        """What the image is: its reference, digest, id and time where it is there, and what tells it from others of the run."""
        image = self.image
        known = (image.digest, image.id, image.created) if image else (None, None, None)
        return {"reference": self.asked, **dict(zip(("digest", "id", "created"), known, strict=True)), "label": self.label or None}

    def failed(self, case: Case, error: StartError) -> dict[str, Any]:
        """The row of a case that could not be run because nothing can be run here."""
        message = str(error) if str(self.asked) in str(error) else f"{self.asked}: {error}"
        row = rows.complete(case, {"verdict": "harness_error", "message": message})
        return self.mark({**row, "repro": self.options.again(case.case_file, case.provider, ["--only", case.id])})


class Sites:
    """The places of a run.

    Args:
        options: of the run.
        providers: of its cases: files and checkouts of the user's are mounted.

    Raises:
        UsageError: options that cannot be.
        StartError: no interpreter with torch on this machine, or no container engine.
    """

    def __init__(self, options: Options, providers: Sequence[str] = ()) -> None:
        self._options = options
        self._providers = list(dict.fromkeys(providers))
        options.where.check()
        self._python = choose_python(options.python) if options.where.here else None
        self._engine: Engine | None = find_engine(options.where.engine) if options.where.images else None
        self._labels = labels(options.where.images)

    def __len__(self) -> int:
        return max(1, len(self._labels))

    def each(self, note: Note) -> Iterator[Site]:
        """One place after the other; an image is fetched when its turn comes.

        Args:
            note: told what is fetched and the exact command lines; takes a text and a limit of its length.

        Raises:
            StartError: the only image is not to be had.
        """

        def tell(text: str) -> None:
            note(text, limit=4000)

        if self._engine is None:
            yield self._prefixed(tell) if self._options.where.prefix is not None else Site(self._options, self._python)
            return
        for name in self._engine.remove_leftovers():
            tell(f"removed {name}, a container that a killed kvcheck had left")
        for reference, label in self._labels.items():
            yield self._in_image(self._engine, reference, label if len(self) > 1 else "", tell)

    def _prefixed(self, tell: Callable[[str], None]) -> Site:
        site = Site(self._options)
        words = self._options.where.words_of_prefix()
        site.launcher = lambda _folder: PrefixLauncher(words, self._options.python, note=_keeping(site, tell))
        return site

    def _in_image(self, engine: Engine, reference: str, label: str, tell: Callable[[str], None]) -> Site:
        where = dataclasses.replace(self._options.where, images=(reference,))
        site = Site(dataclasses.replace(self._options, where=where), asked=reference, label=label)
        try:
            image = engine.ensure(reference, tell)
        except StartError as error:
            if not label:
                raise
            tell(str(error))
            site.problem = error
            return site
        site.image = image
        site.options = dataclasses.replace(site.options, where=dataclasses.replace(where, images=(image.pinned,)))
        mounts = [*where.mounted(), *provider_mounts(self._providers)]
        site.launcher = lambda folder: ContainerLauncher(
            engine,
            image,
            folder,
            devices=where.engine_options or None,
            device=self._options.device,
            mounts=mounts,
            python=self._options.python,
            note=_keeping(site, tell),
        )
        return site


def _keeping(site: Site, tell: Callable[[str], None]) -> Callable[[str], None]:
    def keep(text: str) -> None:
        site.shown = text.partition(": ")[2]
        tell(text)

    return keep


def labels(images: Sequence[str]) -> dict[str, str]:
    """Short names by image, no two alike: the last part of the name with its tag; commits and digests cut to twelve digits."""
    short = {image: HASH.sub(lambda match: match.group()[:12], _last(image)) for image in images}
    taken = list(short.values())
    return {image: label if taken.count(label) == 1 else image for image, label in short.items()}


def _last(image: str) -> str:
    return image[len(repository(image)) - len(repository(image).rpartition("/")[2]) :]


def only_site(options: Options, note: Note) -> Site:
    """The place of a command that looks at one.

    Raises:
        UsageError, StartError: as `Sites`.
    """
    return next(Sites(options).each(note))
