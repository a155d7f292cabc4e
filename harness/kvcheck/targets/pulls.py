"""Pulls images: the one that is needed, the next two behind it, within a budget of disk space, and none that others put here goes."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kvcheck.execute.containers.engine import Engine, Image, ImageMissing
from kvcheck.execute.errors import ExecuteError
from kvcheck.targets.base import Unavailable
from kvcheck.targets.found import Found

AHEAD = 2
UNPACKED = 3.0
"""Bytes on disk for one that a registry sends, until an image that was pulled has shown it."""

FULL = ("no space left", "disk quota exceeded", "not enough space")


@dataclass(frozen=True)
class Pulled:
    """An image that this bisect pulled, or was about to.

    Args:
        reference: what it was pulled as.
        layers: digest and bytes of each layer.
        used: number of its last use; the lowest is the first to go.
        here: whether the pull ended well.
    """

    reference: str
    layers: tuple[tuple[str, int], ...] = ()
    used: int = 0
    here: bool = False


class Pulls:
    """Pulls images and removes them again.

    Args:
        engine: that has them.
        budget: bytes of disk that images pulled here may take, or None for no limit.
        near: of an image in use, the ids that are wanted again soon and go last.
        say: told of what is pulled and removed.
    """

    def __init__(
        self,
        engine: Engine,
        budget: int | None = None,
        near: Callable[[str], set[str]] = lambda _: set(),
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._budget = budget
        self._near = near
        self._say = say
        self._file: Path | None = None
        self._mine: dict[str, Pulled] = {}
        self._running: dict[str, threading.Thread] = {}
        self._failed: dict[str, str] = {}
        self._in_use: list[str] = []
        self._ratio: float | None = None
        self._count = 0
        self._lock = threading.RLock()
        self._stop = threading.Event()

    @property
    def mine(self) -> Mapping[str, Pulled]:
        """The images that this bisect pulled, by id."""
        with self._lock:
            return dict(self._mine)

    def open(self, folder: Path) -> None:
        """Remembers in a folder what is pulled, and reads what an earlier kvcheck pulled for this bisect.

        An entry is written before its pull begins: an image that came in while kvcheck was killed is this bisect's own too.
        """
        with self._lock:
            self._file = folder / "pulled.json"
            if self._file.is_file():
                entries = json.loads(self._file.read_text())["images"]
                self._mine = {key: _read(entry) for key, entry in entries.items() if self._is_here(key)}
                self._count = max((entry.used for entry in self._mine.values()), default=0)
            self._write()

    @contextmanager
    def use(self, image: Found) -> Iterator[Image]:
        """The image on this machine, which stays while this is entered.

        Raises:
            Unavailable: it could not be pulled, or is larger than the budget, and what was said.
        """
        key = image.id or image.reference
        with self._lock:
            self._in_use.append(key)
        try:
            yield self._here(image, key)
        finally:
            with self._lock:
                self._in_use.remove(key)

    def ahead(self, images: list[Found]) -> None:
        """Begins to pull the first two of these that are not here; returns at once. What does not fit the budget is not pulled."""
        with self._lock:
            if self._stop.is_set():
                return
            wanted = [image for image in images[:AHEAD] if not self._is_here(image.id or image.reference)]
            kept = {image.id or image.reference for image in images[:AHEAD]}
            for image in wanted:
                key = image.id or image.reference
                if key in self._running or key in self._failed or len(self._running) >= AHEAD:
                    continue
                if self._make_room(image, kept | self._neighbours()):
                    self._start(image, key)

    def close(self) -> None:
        """Gives up the pulls that still run; a second time does nothing."""
        self._stop.set()
        for thread in list(self._running.values()):
            thread.join(10.0)

    def _here(self, image: Found, key: str) -> Image:
        while True:
            found = self._inspect(key)
            if found is None and (image.local or not image.id):  # files of images go by their path, and what has no id by its name
                found = self._inspect(image.reference)
            if found and (not image.id or found.id == image.id):
                with self._lock:
                    self._touch(key)
                return found
            with self._lock:
                thread = self._running.get(key)
                if thread is None and key in self._failed:
                    raise Unavailable(self._failed.pop(key))
                if thread is None:
                    if image.problem and not image.id:
                        raise Unavailable(image.problem)
                    if self._make_room(image, set()):
                        thread = self._start(image, key)
                    elif not self._running:
                        raise Unavailable(self._too_large(image))
                    else:
                        thread = next(iter(self._running.values()))  # what was pulled ahead is removed once it is here
            thread.join()
            with self._lock:
                if key in self._mine and key not in self._failed and not self._is_here(key):
                    self._failed[key] = f"{image.reference} was pulled, but the image that came is not {key[:19]}"

    def _start(self, image: Found, key: str) -> threading.Thread:
        reference = _pinned(image)
        self._count += 1
        self._mine[key] = Pulled(reference, image.layers, self._count)
        self._write()  # before the pull begins: a killed kvcheck knows what it left
        self._say(f"pulling {image.label}" + (f", {_gib(_bytes(image))} to fetch" if image.layers else ""))
        thread = threading.Thread(target=self._pull, args=(image, key, reference), name=f"kvcheck-pull-{image.label}", daemon=True)
        self._running[key] = thread
        thread.start()
        return thread

    def _pull(self, image: Found, key: str, reference: str) -> None:
        problem = None
        try:
            arrived = self._fetch(image, reference)
            self._measure(image, arrived)
        except ExecuteError as error:
            problem = str(error)
        with self._lock:
            self._running.pop(key, None)
            if problem:
                self._failed[key] = problem
                self._mine.pop(key, None)
            else:
                self._mine[key] = replace(self._mine[key], here=True)
            self._write()

    def _fetch(self, image: Found, reference: str) -> Image:
        """Pulls; a disk that is full is cleared of what this bisect pulled before, and the pull tried again once."""
        try:
            return self._engine.pull(reference, stop=self._stop)
        except ExecuteError as error:
            if not any(word in str(error).lower() for word in FULL):
                raise
            with self._lock:
                if not self._remove_one(self._neighbours()) and not self._remove_one(set()):
                    raise
        return self._engine.pull(reference, stop=self._stop)

    def _make_room(self, image: Found, kept: set[str]) -> bool:
        """Removes the least recently used images of this bisect until one more fits; those in use stay, and near ones go last."""
        if self._budget is None:
            return True
        while self._needed(image, ahead=bool(kept)) > self._budget:
            if not self._remove_one(kept | self._neighbours()) and (kept or not self._remove_one(set())):
                return False
        return True

    def _remove_one(self, kept: set[str]) -> bool:
        for key, entry in sorted(self._mine.items(), key=lambda item: item[1].used):
            if key in self._in_use or key in self._running or key in kept:
                continue
            self._mine.pop(key)
            self._write()
            if not self._is_here(key):
                return True
            try:
                self._engine.remove(key)
            except ExecuteError:
                continue  # somebody else uses it: it is theirs now
            self._say(f"removed {entry.reference} to make room")
            return True
        return False

    def _needed(self, image: Found, ahead: bool = False) -> float:
        """Bytes on disk of what this bisect pulled and one more image, layers that they share counted once.

        Until an image has shown how much it is unpacked, the most is assumed of one that may wait, and the least of one that is needed.
        """
        layers = {digest: size for entry in self._mine.values() for digest, size in entry.layers}
        layers.update(image.layers)
        return sum(layers.values()) * (self._ratio or (UNPACKED if ahead else 1.0))

    def _too_large(self, image: Found) -> str:
        size = _gib(_bytes(image) * (self._ratio or 1.0))
        return f"{image.label} takes about {size} on disk, and --disk allows {_gib(self._budget or 0)}"

    def _measure(self, image: Found, arrived: Image) -> None:
        if arrived.size and _bytes(image):
            self._ratio = arrived.size / _bytes(image)

    def _neighbours(self) -> set[str]:
        return {key for used in self._in_use for key in self._near(used)}

    def _touch(self, key: str) -> None:
        if key in self._mine:
            self._count += 1
            self._mine[key] = replace(self._mine[key], used=self._count, here=True)
            self._write()

    def _inspect(self, reference: str) -> Image | None:
        try:
            return self._engine.inspect(reference)
        except ImageMissing:
            return None
        except ExecuteError as error:
            raise Unavailable(str(error)) from None

    def _is_here(self, key: str) -> bool:
        try:
            return self._engine.inspect(key) is not None
        except ExecuteError:
            return False

    def _write(self) -> None:
        if self._file is None:
            return
        entries = {key: vars(entry) for key, entry in self._mine.items()}
        beside = self._file.with_suffix(".new")
        beside.write_text(json.dumps({"images": entries}, indent=1) + "\n")
        os.replace(beside, self._file)


def _read(entry: Mapping[str, Any]) -> Pulled:
    layers = tuple((str(digest), int(size)) for digest, size in entry["layers"])
    return Pulled(str(entry["reference"]), layers, int(entry["used"]), bool(entry["here"]))


def _pinned(image: Found) -> str:
    """What to pull: by digest where that is known, since a tag may move."""
    if not image.digest or "@" in image.reference:
        return image.reference
    folder, slash, last = image.reference.rpartition("/")
    return f"{folder}{slash}{last.partition(':')[0]}@{image.digest}"


def _bytes(image: Found) -> int:
    return sum(dict(image.layers).values())


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**28 else f"{size / 2**20:.1f} MiB"
