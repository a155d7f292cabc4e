"""Finds the image that an end of a range means: by day, tag, reference, digest, id or commit."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from kvcheck.execute.containers.engine import Engine
from kvcheck.execute.errors import ExecuteError
from kvcheck.targets import tags
from kvcheck.targets.base import RangeError
from kvcheck.targets.found import Found
from kvcheck.targets.registry import Registry, RegistryError

HEX = re.compile(r"(?:sha256:)?([0-9a-f]{6,64})")
RETENTION = "older ones are no longer kept there (two weeks are usual for nightlies)"


class Ends:
    """Finds ends among images.

    Args:
        images: what the range may hold.
        local: everything that is here.
        repository: that the range goes by, or None.
        template: of its tags, or None.
        engine: to ask for names it resolves itself.
        registry: to ask for a digest or a tag that is not among the images.

    Attributes:
        notes: what was taken instead of what was asked for.
    """

    def __init__(
        self,
        images: Sequence[Found],
        local: Sequence[Found],
        repository: str | None,
        template: tags.Template | None,
        engine: Engine,
        registry: Registry,
    ) -> None:
        self.notes: list[str] = []
        self._images = images
        self._local = local
        self._repository = repository
        self._template = template
        self._engine = engine
        self._registry = registry

    def find(self, option: str, text: str, older: bool) -> Found:
        """The image of an end.

        Args:
            option: --good or --bad.
            text: what the user gave it.
            older: whether it is the older end.

        Raises:
            RangeError: no image is meant by it, or several are; with the nearest ones.
        """
        day = tags.day(text)
        if day:
            return self._of_day(option, day, older)
        return self._named(text) or self._by_digits(option, text) or self._elsewhere(option, text)

    def wants_ids(self, option: str, text: str) -> bool:
        """Whether only the ids of the images, which nobody has asked for yet, can tell what this end is."""
        return bool(HEX.fullmatch(text)) and not self._named(text) and not self._by_digits(option, text)

    def _of_day(self, option: str, day: date, older: bool) -> Found:
        dated = sorted((image for image in self._images if image.day), key=lambda image: image.day or "")
        if not dated:
            raise RangeError(f"{option} {day}: expected tags with a day in them to find it by; name it in --image as {{date}}")
        same = [image for image in dated if image.day == day.isoformat()]
        if same:
            return same[0 if older else -1]
        beyond = [image for image in dated if (image.day < day.isoformat() if older else image.day > day.isoformat())]
        if beyond:
            taken = beyond[-1 if older else 0]
            side = "before" if older else "after"
            self.notes.append(f"{option} {day}: no image of that day; {taken.label} of {taken.day} is the nearest {side} it")
            return taken
        edge = dated[0 if older else -1]
        kept = f"; {RETENTION}" if older else ""
        which = "oldest" if older else "newest"
        raise RangeError(
            f"{option} {day}: the {which} image that fits is {edge.label} of {edge.day}{kept}. "
            f"Give {option} {edge.label}, or an image that somebody kept: its id here, or a line of --candidates"
        )

    def _named(self, text: str) -> Found | None:
        repository, tag, digest = tags.split(text)
        for images in (self._images, self._local):
            for image in images:
                here, its_tag, _ = tags.split(image.reference)
                whole = image.reference == text or (image.tag and image.tag.text == text and images is self._images)
                bare = repository == text and self._repository and its_tag == text and tags.same_repository(here, self._repository)
                spelt = tag and not digest and its_tag == tag and tags.same_repository(here, repository)
                if whole or bare or spelt:
                    return image
        return None

    def _by_digits(self, option: str, text: str) -> Found | None:
        """By digest, image id or commit, shortened or not."""
        found = HEX.fullmatch(text.rpartition("@")[2])
        if not found:
            return None
        digits = found[1]
        for images in (self._images, self._local):
            same = [image for image in images if _bare(image.id).startswith(digits) or _bare(image.digest).startswith(digits)]
            ids = {image.id for image in same}
            if len(ids) > 1:
                shown = ", ".join(sorted(_bare(one)[:16] for one in ids))
                raise RangeError(f"{option} {text}: {len(ids)} images have an id that begins so: {shown}")
            if same:
                return next((image for image in same if image.tag), same[0])
        same = [image for image in self._images if image.tag and (image.tag.commit or "").startswith(digits)]
        if len({image.tag.commit for image in same if image.tag}) > 1:
            raise RangeError(
                f"{option} {text}: {len(same)} tags have a commit that begins so: {', '.join(image.label for image in same[:4])}"
            )
        return same[0] if same else None

    def _elsewhere(self, option: str, text: str) -> Found:
        """An image that neither the lists nor the local names hold: the engine may resolve it, or the registry have it."""
        try:
            image = self._engine.inspect(text)
            tag = self._template.match(tags.split(text)[1] or "") if self._template else None
            return Found(text, image.id, tag, image.created, image.digest, (), True, image.labels)
        except ExecuteError:
            pass
        repository, tag, digest = tags.split(text)
        reference = text if tag or digest else f"{self._repository}:{text}"
        if tags.is_digest(text) and self._repository:
            reference = f"{self._repository}@{text}"
        why = "not an image here"
        only_here = bool(self._images) and all(image.reference.startswith("localhost/") for image in self._images)
        if (tag or digest or self._repository) and not only_here and not reference.startswith("localhost/"):
            try:
                found = self._registry.date(self._registry.look(Found(reference)))
                its_tag = tags.split(reference)[1]
                return replace(found, tag=self._template.match(its_tag) if self._template and its_tag else None)
            except RegistryError as error:
                why = f"{why}, and {error}"
        known = sorted({image.label for image in self._images})
        near = difflib.get_close_matches(tag or text, known, n=3, cutoff=0.5)
        hint = f"; near: {', '.join(near)}" if near else f"; {len(known)} are known, such as {known[0]}" if known else ""
        raise RangeError(f"{option}: expected a day, tag, reference, digest or image id, got {text!r}: {why}{hint}")


def _bare(digest: str | None) -> str:
    return (digest or "-").removeprefix("sha256:")
