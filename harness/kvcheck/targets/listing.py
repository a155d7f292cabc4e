"""Gathers the images that a range may hold: local ones, those of a list, a registry's tags, or one a day."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from kvcheck.execute.containers.engine import Engine
from kvcheck.execute.errors import ExecuteError
from kvcheck.targets import tags
from kvcheck.targets.base import RangeError
from kvcheck.targets.found import Found
from kvcheck.targets.registry import Registry, RegistryError

SOURCES = ("auto", "local", "registry", "dates")
EXAMPLES = 3
FILES = (".sif", ".img", ".sqsh")
"""Endings of files that are images."""


@dataclass(frozen=True)
class Wanted:
    """The range that a user asked for.

    Args:
        good: a day, a tag, a reference, a digest, or an image id that may be shortened.
        bad: likewise.
        template: REPOSITORY[:TEMPLATE], or None to go by the names of the ends.
        candidates: files of references, one a line, or references.
        source: where images are looked for: auto, local, registry or dates.
        order: day, git, created or list; None for what the names of the images allow.
        by_git: a clone for `git` order.
        find: regression, where the good end is the older one, or fix.
    """

    good: str
    bad: str
    template: str | None = None
    candidates: tuple[str, ...] = ()
    source: str = "auto"
    order: str | None = None
    by_git: Path | None = None
    find: str = "regression"

    @property
    def ends(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Option and text of the older end and of the newer one."""
        both = ("--good", self.good), ("--bad", self.bad)
        return both if self.find == "regression" else (both[1], both[0])


def local_images(engine: Engine) -> list[Found]:
    """What this machine has, one entry a name; an image without a name has one under its id."""
    found = []
    for image in engine.images():
        for reference in image.tags or (image.id,):
            found.append(Found(reference, image.id, None, image.created, image.digest, (), True, image.labels))
    return found


def listed(candidates: Sequence[str], local: Sequence[Found], engine: Engine) -> list[Found]:
    """The images of files and references, in their order.

    Args:
        candidates: as typed.
        local: what is here.
        engine: asked for files that are images themselves.

    Raises:
        RangeError: a file that cannot be read or holds nothing, or a line that is no reference.
    """
    images = []
    for name in candidates:
        file = Path(name).expanduser()
        if not file.is_file() or name.endswith(FILES):
            images.append(_known(name, local, engine))
            continue
        try:
            lines = [line.partition("#")[0].strip() for line in file.read_text().splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise RangeError(f"--candidates {name}: {error}") from None
        for number, line in enumerate(lines, 1):
            if len(line.split()) > 1:
                raise RangeError(f"--candidates {name}:{number}: expected one image a line, got {line!r}")
        images += [_known(line, local, engine) for line in lines if line]
    if candidates and not images:
        raise RangeError(f"--candidates {candidates[0]}: holds no image")
    return images


def named(wanted: Wanted, local: Sequence[Found]) -> tuple[str | None, str | None]:
    """Repository and template that the range goes by, the user's or as the names of the ends have it.

    Raises:
        RangeError: the ends belong to two repositories, or are named by two templates.
    """
    repository, template = None, None
    if wanted.template:
        repository, template, digest = tags.split(wanted.template)
        if digest or not repository:
            raise RangeError(f"--image: expected REPOSITORY:TEMPLATE such as rocm/vllm-dev:nightly_{{date:%m%d}}, got {wanted.template!r}")
        if template:
            return repository, template
    if not repository:
        repositories = {tags.split(name)[0] for _, text in wanted.ends for name in _names(text, None, local)}
        if any(not tags.same_repository(one, other) for one in repositories for other in repositories):
            raise RangeError(f"the ends belong to {' and '.join(sorted(repositories))}: name one with --image, or a list with --candidates")
        repository = min(repositories, default=None, key=len)
    names = {option: _names(text, repository, local) for option, text in wanted.ends}
    guesses = {option: {tags.guess(tag) for name in names_ if (tag := tags.split(name)[1])} for option, names_ in names.items()}
    # A tag without parts, such as `latest`, moves from image to image: it is found by the id that it has.
    known = [parted for guess in guesses.values() if (parted := {text for text in guess if "{" in text})]
    shared = set.intersection(*known) if known else set()
    if known and not shared:
        shown = " and ".join(f"{option} by {', '.join(sorted(guess))}" for option, guess in guesses.items())
        raise RangeError(f"the ends are named in two ways, {shown}: say with --image REPOSITORY:TEMPLATE which tags are one line of images")
    return repository, max(shared, key=lambda text: text.count("{"), default=None)


class Gatherer:
    """Looks for images under one repository and template.

    Args:
        repository: as the user writes it.
        template: of its tags; None takes every tag.
        registry: to ask.
        local: what is here.

    Attributes:
        notes: what was left out, and why.
    """

    def __init__(self, repository: str, template: tags.Template | None, registry: Registry, local: Sequence[Found]) -> None:
        self.notes: list[str] = []
        self._repository = repository
        self._template = template
        self._registry = registry
        self._local = [image for image in local if tags.same_repository(tags.split(image.reference)[0], repository)]

    def gather(self, source: str, days: tuple[date, date] | None) -> list[Found]:
        """Images of this repository that fit, local ones first, each name once.

        Args:
            source: see `Wanted`.
            days: first and last day of the range where both are known.

        Raises:
            RangeError: the registry was to be asked, and could not be.
        """
        images = self._fitting(self._local)
        if source == "local" or (source == "auto" and self._only_here()):
            return images
        if source != "dates":
            try:
                return self._joined(images, self._fitting(self._tagged(self._registry.tags(self._repository))))
            except RegistryError as error:
                countable = days and self._template and self._template.expandable
                if source == "registry" or not (countable or images):
                    raise RangeError(f"the tags of {self._repository} cannot be listed: {error}") from None
                if not countable:
                    self.notes.append(f"the registry was not asked ({error}): only images that are here are looked at")
                    return images
                self.notes.append(f"the registry does not list its tags ({error}): one image a day is asked for instead")
        return self._joined(images, self._daily(days))

    def _daily(self, days: tuple[date, date] | None) -> list[Found]:
        if not days or not self._template:
            raise RangeError(
                "--from dates: expected --image REPOSITORY:TEMPLATE with {date}, and ends that are days or have one in their tags"
            )
        here = {image.label for image in self._fitting(self._local)}
        asked = [tag for tag in self._template.expand(*days) if tag.text not in here]
        try:
            return self._registry.look_at_all([Found(f"{self._repository}:{tag.text}", tag=tag) for tag in asked])
        except RegistryError as error:
            raise RangeError(f"{self._repository} cannot be asked for: {error}") from None

    def _tagged(self, names: Iterable[str]) -> list[Found]:
        return [Found(f"{self._repository}:{name}") for name in names]

    def _only_here(self) -> bool:
        host = self._repository.partition("/")[0]
        return host == "localhost" or (bool(self._local) and all(image.reference.startswith("localhost/") for image in self._local))

    def _fitting(self, images: Sequence[Found]) -> list[Found]:
        if self._template is None:
            return list(images)
        fitting, odd = [], []
        for image in images:
            tag = self._template.match(tags.split(image.reference)[1] or "")
            if tag:
                fitting.append(replace(image, tag=tag))
            else:
                odd.append(tags.split(image.reference)[1] or image.label)
        odd = sorted(set(odd))
        if odd:
            some = ", ".join(odd[:EXAMPLES]) + (", ..." if len(odd) > EXAMPLES else "")
            where = "here" if images and images[0].local else "in the registry"
            self.notes.append(f"{len(odd)} tag{'s' * (len(odd) > 1)} {where} that {self._template.text} does not fit left out: {some}")
        return fitting

    def _joined(self, here: Sequence[Found], there: Sequence[Found]) -> list[Found]:
        known = {tags.split(image.reference)[1] for image in here}
        return [*here, *(image for image in there if tags.split(image.reference)[1] not in known)]


def _known(name: str, local: Sequence[Found], engine: Engine) -> Found:
    """A reference of a list, with what is known of it where it is here."""
    if name.endswith(FILES) or os.path.isdir(name):
        try:
            image = engine.inspect(name)
        except ExecuteError as error:
            return Found(name, problem=str(error))
        return Found(name, image.id, None, image.created, image.digest, (), True, image.labels)
    repository, tag, digest = tags.split(name)
    for image in local:
        if image.reference == name or image.id == name or (digest and image.digest == digest):
            return image
        here, its_tag, _ = tags.split(image.reference)
        if not digest and tags.same_repository(here, repository) and its_tag == (tag or "latest"):
            return image
    return Found(name)


def _names(text: str, repository: str | None, local: Sequence[Found]) -> list[str]:
    """The references that an end goes by; none for a day, and for an image that has no name."""
    if tags.day(text):
        return []
    bare = text.removeprefix("sha256:")
    if len(bare) >= 6 and all(letter in "0123456789abcdef" for letter in bare):
        known = [image.reference for image in local if (image.id or "").removeprefix("sha256:").startswith(bare) or image.digest == text]
        return [name for name in known if tags.split(name)[1]]
    if repository and not tags.split(text)[1] and "/" not in text:
        return [f"{repository}:{text}"]
    return [text] if tags.split(text)[1] or "@" in text else []
