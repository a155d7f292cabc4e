"""A range of container images: nightlies of a repository, local ones, or a list, from the one that was good to the one that is bad."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from kvcheck.execute.containers.engine import Engine, Image, Mount
from kvcheck.execute.containers.launcher import ContainerLauncher
from kvcheck.execute.errors import ExecuteError
from kvcheck.execute.launch import Launcher
from kvcheck.targets import ranges, tags
from kvcheck.targets.alike import Contents, Packages
from kvcheck.targets.base import Candidate, Place, RangeError
from kvcheck.targets.found import Found
from kvcheck.targets.listing import Wanted
from kvcheck.targets.pulls import Pulls
from kvcheck.targets.registry import Registry
from kvcheck.targets.swapped import Swap, convict


@dataclass(frozen=True)
class Inside:
    """How agents run in an image.

    Args:
        devices: the engine's words for devices; None is what this host has.
        device: of the cases.
        mounts: what agents see of this machine.
        python: interpreter in the images; None looks for one that has torch.
        note: told the command line.
        words: of kvcheck's command line, that say the same of one image.
    """

    devices: Sequence[str] | None = None
    device: str = "auto"
    mounts: Sequence[Mount] = ()
    python: str | None = None
    note: Callable[[str], None] | None = None
    words: Sequence[str] = ()


class ImagesTarget:
    """The images of a range.

    Args:
        wanted: the range that the user asked for.
        engine: that runs them.
        registry: that the others come from.
        inside: how agents run in them.
        budget: bytes of disk that pulled images may take, or None.
        contents: tells what is in a local image; None where nobody can.
        collapse: whether images that are alike by content are to share an answer.
        swap: package that is to be exchanged between the two neighbours of the boundary, or None.
        below: of a package that differs, the commands that look inside the difference: see `deeper`.
        say: told of pulls and removals.
    """

    kind = "images"

    def __init__(
        self,
        wanted: Wanted,
        engine: Engine,
        registry: Registry,
        inside: Inside | None = None,
        *,
        budget: int | None = None,
        contents: Contents | None = None,
        collapse: bool = True,
        swap: str | None = None,
        below: Callable[[Packages, Packages, tuple[str, str]], Sequence[Sequence[str]]] | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._wanted = wanted
        self._engine = engine
        self._registry = registry
        self._inside = inside or Inside()
        self._contents = contents
        self._collapse = collapse
        self._swap = Swap(engine, swap, self._inside.mounts) if swap else None
        self._below = below
        self._folder: Path | None = None
        self._images: dict[str, Found] = {}
        self._order: list[str] = []
        self._placed: list[str] = []
        self._packages: dict[str, Packages] = {}
        self._notes: list[str] = []
        self._pulls = Pulls(engine, budget, self._near, say)

    @property
    def extra_title(self) -> str:
        """Heading of what `extra` found."""
        return f"Exchanging {self._swap.package}" if self._swap else ""

    def open(self, folder: Path) -> None:
        """Keeps in a folder what was found out of the images, and what was pulled."""
        self._folder = folder
        gone = self._engine.remove_leftovers()
        if gone:
            self._notes.append(f"removed {len(gone)} container{'s' * (len(gone) > 1)} of a kvcheck that was killed")
        self._pulls.open(folder)

    def candidates(self) -> list[Candidate]:
        """Every image from one end to the other, in order.

        Raises:
            RangeError: an end is not there, or nothing lies between.
        """
        try:
            found, notes = ranges.build(self._wanted, self._engine, self._registry)
        except ExecuteError as error:
            raise RangeError(str(error)) from None
        self._notes += notes
        made = [_candidate(image, names) for image, names in found]
        self._images = {candidate.key: image for candidate, (image, _) in zip(made, found, strict=True)}
        self._order = [candidate.key for candidate in made]
        if self._folder:
            self._write(self._folder / "images.json")
        return made

    def restore(self, candidates: Sequence[Candidate]) -> None:
        """Takes the candidates of a bisect that is gone on with; what their images are pulled as is in the folder.

        Raises:
            RangeError: the folder has lost it.
        """
        file = (self._folder or Path()) / "images.json"
        try:
            entries = json.loads(file.read_text())["images"]
            self._images = {key: Found(**{**entry, "layers": tuple(map(tuple, entry["layers"]))}) for key, entry in entries.items()}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RangeError(f"{file} cannot be read, and says what the images are pulled as: {error}") from None
        for candidate in candidates:
            self._images[candidate.key] = replace(self._images[candidate.key], tag=tags.Tag(candidate.label))
        self._order = [candidate.key for candidate in candidates]

    def notes(self) -> list[str]:
        """What the user has to know of the range."""
        return list(self._notes)

    @contextmanager
    def place(self, candidate: Candidate) -> Iterator[Place]:
        """The image on this machine, ready to run.

        Raises:
            Unavailable: it could not be pulled.
        """
        found = self._images[candidate.key]
        with self._pulls.use(found) as image:
            self._placed.append(candidate.key)
            facts: dict[str, Any] = {"digest": found.digest or image.digest, "_image": found.reference}
            if candidate.key in self._pulls.mine:
                facts["fetched"] = _size(found)
            packages = self._look(candidate.key, image) if self._collapse else None
            if packages and packages.key:
                facts["contents_key"] = packages.key
            known = {name: value for name, value in facts.items() if value}
            yield Place(launcher=self._launcher(image), facts={**known, "_words": ["--image", _pinned(found, image), *self._inside.words]})

    def ahead(self, candidates: Sequence[Candidate]) -> None:
        """Begins to pull the images that are likely to be needed next."""
        self._pulls.ahead([self._images[candidate.key] for candidate in candidates])

    def contents(self, candidate: Candidate) -> Mapping[str, str]:
        """Packages of an image and what each is; of one that is not here no more than its labels say."""
        packages = self._known(candidate.key)
        if packages:
            return packages.facts
        return {
            f"label {name}": value for name, value in self._images[candidate.key].labels.items() if "revision" in name or "version" in name
        }

    def deeper(self, good: Candidate, bad: Candidate) -> Sequence[Sequence[str]]:
        """Commands that look for the commit in the packages that differ."""
        packages = self._known(good.key), self._known(bad.key)
        if not self._below or packages[0] is None or packages[1] is None:
            return []
        where = ["--image", good.key, *self._inside.words]  # all but the package is as it was when the cases passed
        commands = self._below(packages[0], packages[1], (good.label, bad.label))
        return [[*command, *where] for command in commands]

    def extra(self, good: Candidate, bad: Candidate) -> Sequence[tuple[str, AbstractContextManager[Place]]]:
        """With --swap: each of two images with the other one's package laid over its own."""
        if not self._swap:
            return []
        package = self._swap.package
        return [
            (f"{good.label} with {package} of {bad.label}", self._exchanged(good, bad)),
            (f"{bad.label} with {package} of {good.label}", self._exchanged(bad, good)),
        ]

    def conclude(self, answers: Mapping[str, str]) -> str:
        """What the four runs of --swap convict."""
        return convict(self._swap.package, list(answers.values())) if self._swap else ""

    def plan(self) -> Mapping[str, Any]:
        """What is here, and what would be fetched: all of it, since nobody knows beforehand which steps it takes."""
        away = [image for image in self._images.values() if not image.local]
        layers = {digest: size for image in away for digest, size in image.layers}
        largest = max((sum(dict(image.layers).values()) for image in away), default=0)
        return {
            "images": len(self._images),
            "here already": len(self._images) - len(away),
            "bytes to pull": sum(layers.values()),
            "of these for the largest image": _gib(largest),
            **{f"digest of {image.label}": image.digest or image.id or "unknown" for image in self._images.values()},
        }

    def close(self) -> None:
        """Gives up pulls, and removes packages that were copied; images stay, since the next bisect may want them."""
        self._pulls.close()
        if self._swap:
            self._swap.close()

    def _launcher(self, image: Image, mounts: Sequence[Mount] = ()) -> Callable[[Path], Launcher]:
        inside = self._inside
        return lambda folder: ContainerLauncher(
            self._engine,
            image,
            folder,
            devices=inside.devices,
            device=inside.device,
            mounts=[*inside.mounts, *mounts],
            python=inside.python,
            note=inside.note,
        )

    @contextmanager
    def _exchanged(self, base: Candidate, giver: Candidate) -> Iterator[Place]:
        assert self._swap is not None
        with self._pulls.use(self._images[base.key]) as image, self._pulls.use(self._images[giver.key]) as other:
            mount = self._swap.mount(image, other)
            facts = {
                "laid over": f"{mount.target} of {giver.label}",
                "_words": ["--image", image.id, "--mount", f"<{self._swap.package} of {giver.label}>:{mount.target}", *self._inside.words],
            }
            yield Place(launcher=self._launcher(image, [mount]), facts=facts)

    def _known(self, key: str) -> Packages | None:
        """What is in an image that is here."""
        if key in self._packages:
            return self._packages[key]
        try:
            return self._look(key, self._engine.inspect(key))
        except ExecuteError:
            return None

    def _look(self, key: str, image: Image) -> Packages | None:
        if key not in self._packages and self._contents:
            try:
                self._packages[key] = self._contents(self._engine, image)
            except ExecuteError:
                return None  # what is in it is a remark; whether it runs is what the step finds out
        return self._packages.get(key)

    def _near(self, key: str) -> set[str]:
        """Images on both sides of one in use that were in use before: between them the boundary lies, and they are run again."""
        if key not in self._order:
            return set()
        at = self._order.index(key)
        sides = (reversed(self._order[:at]), iter(self._order[at + 1 :]))
        return {near for side in sides if (near := next((one for one in side if one in self._placed), None))}

    def _write(self, file: Path) -> None:
        entries = {key: {**asdict(image), "tag": None, "labels": dict(image.labels)} for key, image in self._images.items()}
        beside = file.with_suffix(".new")
        beside.write_text(json.dumps({"images": entries}, indent=1) + "\n")
        os.replace(beside, file)


def _candidate(image: Found, names: tuple[str, ...]) -> Candidate:
    return Candidate(image.id or image.reference, image.label, image.day or image.created, names, image.variant)


def _pinned(found: Found, image: Image) -> str:
    """What to type to get this very image again: by digest where a registry has it, else by its id."""
    if not found.digest or found.local:
        return image.id
    return found.reference if "@" in found.reference else f"{tags.split(found.reference)[0]}@{found.digest}"


def _size(image: Found) -> str | None:
    size = sum(dict(image.layers).values())
    return _gib(size) if size else None


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB" if size >= 2**27 else f"{size / 2**20:.2f} MiB"
