"""Makes a range of images: from one end to the other, one variant, in order, two names of one image being one step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta

from kvcheck.execute.containers.engine import Engine
from kvcheck.targets import order, tags
from kvcheck.targets.base import RangeError
from kvcheck.targets.ends import RETENTION, Ends
from kvcheck.targets.found import Found
from kvcheck.targets.listing import Gatherer, Wanted, listed, local_images, named
from kvcheck.targets.registry import Registry, RegistryError

ORDERS = ("day", "git", "created", "list")
SHOWN_NIGHTS = 4


def build(
    wanted: Wanted, engine: Engine, registry: Registry, today: date | None = None
) -> tuple[list[tuple[Found, tuple[str, ...]]], list[str]]:
    """The range that a user asked for.

    Args:
        wanted: what was asked for.
        engine: knows the local images.
        registry: is asked for the others.
        today: the last day that a date without its year may be.

    Returns:
        images: oldest first, the ends included, each with the other names it has; all have an id or a problem.
        notes: what was left out or taken instead, for the user.

    Raises:
        RangeError: an end that is not there, ends in the wrong order or of two variants, or nothing to put them in order by.
    """
    local = local_images(engine)
    repository, text = (None, None) if wanted.candidates else named(wanted, local)
    if wanted.candidates and wanted.template:
        repository, text, _ = tags.split(wanted.template)
    template = tags.Template(text, today) if text else None
    images, notes = _gathered(wanted, local, repository, template, registry, engine)
    finder = Ends(images, local, repository, template, engine, registry)
    if repository and any(finder.wants_ids(option, text) for option, text in wanted.ends):
        images = _asked(images, local, registry, notes, dates=False)
        finder = Ends(images, local, repository, template, engine, registry)
    (older_option, older_text), (newer_option, newer_text) = wanted.ends
    oldest, newest = finder.find(older_option, older_text, True), finder.find(newer_option, newer_text, False)
    notes += finder.notes
    images = _with(images, oldest, newest)
    if template and not (oldest.tag and newest.tag):
        images = _asked(images, local, registry, notes, dates=False)
        oldest, newest = _again(images, oldest), _again(images, newest)
    images = _one_variant(images, oldest, newest, notes)
    way = _way(wanted, images, oldest, newest)
    if way == "created" or (way == "git" and not all(map(order.commit_of, images))):
        images = _asked(images, local, registry, notes, dates=True)
        oldest, newest = _again(images, oldest), _again(images, newest)
    images = _ordered(way, wanted, images, oldest, newest, notes)
    first, last = _position(images, oldest), _position(images, newest)
    if oldest.id and oldest.id == newest.id:
        raise RangeError(f"both ends are one image: {oldest.label} and {newest.label} have the id {oldest.id[:19]}")
    if first >= last:
        both = f"{older_option} {older_text} is newer than {newer_option} {newer_text}"
        when = f"({oldest.day or oldest.created} and {newest.day or newest.created})"
        other = (
            "for the change that mended it: --find fix" if wanted.find == "regression" else "--find fix looks for the change that mended it"
        )
        raise RangeError(f"{both} {when}: expected it to be older; {other}")
    between = _asked(images[first : last + 1], local, registry, notes, dates=False)
    for end, image in ((older_option, between[0]), (newer_option, between[-1])):
        if image.problem:
            raise RangeError(f"{end}: {image.problem}")
    steps = _by_content(between, notes)
    if len(steps) < 2:
        raise RangeError(f"both ends are one image: {oldest.label} and {newest.label} have the id {(between[0].id or '')[:19]}")
    if way == "day":
        _missing_nights(between, images, notes)
    return steps, notes


def _gathered(
    wanted: Wanted, local: Sequence[Found], repository: str | None, template: tags.Template | None, registry: Registry, engine: Engine
) -> tuple[list[Found], list[str]]:
    if wanted.candidates:
        images = listed(wanted.candidates, local, engine)
        if template is None:
            return images, []
        fitting = [replace(image, tag=tag) for image in images if (tag := template.match(tags.split(image.reference)[1] or ""))]
        odd = len(images) - len(fitting)
        return fitting, [f"{odd} of {len(images)} in --candidates that {template.text} does not fit left out"] if odd else []
    if repository is None:
        if wanted.source != "local":
            raise RangeError("the ends name no repository: say with --image, --candidates or --from local which images lie between them")
        return list(local), [f"all {len({image.id for image in local})} local images are looked at"]
    gatherer = Gatherer(repository, template, registry, local)
    images = gatherer.gather(wanted.source, _days(wanted, template))
    return images, gatherer.notes


def _days(wanted: Wanted, template: tags.Template | None) -> tuple[date, date] | None:
    found = []
    for _, text in wanted.ends:
        tag = template.match(tags.split(text)[1] or text) if template else None
        found.append(tags.day(text) or (tag.date if tag else None))
    return (found[0], found[1]) if found[0] and found[1] else None


def _with(images: Sequence[Found], *ends: Found) -> list[Found]:
    names = {image.reference for image in images}
    return [*images, *(end for number, end in enumerate(ends) if end.reference not in names and end not in ends[:number])]


def _one_variant(images: list[Found], oldest: Found, newest: Found, notes: list[str]) -> list[Found]:
    if oldest.tag and newest.tag and oldest.variant != newest.variant:
        old, new = (f"{end.label} is {end.variant or 'of no named variant'}" for end in (oldest, newest))
        raise RangeError(
            f"ROCm stack or card changed between these two: {old}, {new}; a bisect across them would convict the stack. "
            "Name ends of one variant"
        )
    pinned = (oldest.tag or newest.tag or tags.Tag("")).variant
    same = [image for image in images if image.variant == pinned or image in (oldest, newest)]
    other = Counter(image.variant or "no named variant" for image in images if image not in same)
    if other:
        shown = ", ".join(f"{count} of {name}" for name, count in sorted(other.items()))
        notes.append(f"variant {pinned or 'without a name'} is kept to; left out: {shown}")
    return same


def _way(wanted: Wanted, images: Sequence[Found], oldest: Found, newest: Found) -> str:
    if wanted.order:
        return wanted.order
    if wanted.by_git:
        return "git"
    if oldest.day and newest.day and all(image.day or not image.tag for image in images):
        return "day"
    return "list" if wanted.candidates else "created"


def _ordered(way: str, wanted: Wanted, images: Sequence[Found], oldest: Found, newest: Found, notes: list[str]) -> list[Found]:
    if way == "git":
        if not wanted.by_git:
            raise RangeError("--order git: expected --order-by-git DIR, a clone of the repository that the tags name commits of")
        ordered, said = order.by_commit(images, wanted.by_git, oldest, newest)
        notes += said
        return ordered
    if way == "day":
        dated = [image for image in images if image.day]
        if len(dated) < len(images):
            notes.append(f"{len(images) - len(dated)} without a day in the tag left out")
        for end in (oldest, newest):
            if not end.day:
                raise RangeError(f"--order day: {end.label} has no day in its tag; expected ends that have one, or --order created")
        return order.by_day(dated)
    if way == "list":
        if not wanted.candidates:
            raise RangeError("--order list: expected --candidates, whose order it is")
        return list(images)
    known = [image for image in images if not image.problem]
    if any(image.tag and image.tag.commit for image in known):
        notes.append("in the order they were built; --order-by-git DIR goes by the history of the commits in their tags")
    return order.by_created(known)


def _asked(images: Sequence[Found], local: Sequence[Found], registry: Registry, notes: list[str], dates: bool) -> list[Found]:
    """Images with their ids, and with dates when they were built; local ones are not asked for."""
    wanting = [image for image in images if not image.problem and (not image.id or (dates and not image.created))]
    try:
        answers = {image.reference: image for image in registry.look_at_all(wanting, dates)} if wanting else {}
    except RegistryError as error:
        raise RangeError(str(error)) from None
    gone = {image.reference: image.label for image in wanting if image.reference not in answers}
    if gone:
        notes.append(f"{len(gone)} that the registry names but does not have left out: {', '.join(list(gone.values())[:3])}")
    odd = [image for image in answers.values() if image.problem]
    if odd:
        notes.append(f"{len(odd)} could not be asked for and can only be unknown: {odd[0].problem}")
    here = {image.id for image in local}
    whole = [answers.get(image.reference, image) for image in images if image.reference not in gone]
    return [replace(image, local=image.local or image.id in here) for image in whole]


def _again(images: Sequence[Found], end: Found) -> Found:
    """An end among images that have been asked for since; one that has a name in the range is found by its id."""
    for image in images:
        if image.reference == end.reference:
            end = image
    named_ = [image for image in images if image.id == end.id and image.tag] if end.id and not end.tag else []
    return named_[0] if named_ else end


def _position(images: Sequence[Found], end: Found) -> int:
    for number, image in enumerate(images):
        if image.reference == end.reference:
            return number
    raise RangeError(f"{end.label} has no place among the {len(images)} images of the range")


def _by_content(images: Sequence[Found], notes: list[str]) -> list[tuple[Found, tuple[str, ...]]]:
    """Neighbours that are one image become one step; those that are here are taken from here."""
    steps: list[tuple[Found, list[str]]] = []
    for image in images:
        if steps and image.id and steps[-1][0].id == image.id:
            known, names = steps[-1]
            steps[-1] = known.merged(image), [*names, image.label]
        else:
            steps.append((image, []))
    for image, names in steps:
        if names:
            notes.append(f"{image.label} and {', '.join(names)} are one image and one step")
    return [(image, tuple(names)) for image, names in steps]


def _missing_nights(between: Sequence[Found], images: Sequence[Found], notes: list[str]) -> None:
    days = {image.day for image in between}
    first, last = date.fromisoformat(between[0].day or ""), date.fromisoformat(between[-1].day or "")
    count = (last - first).days + 1
    missing = [day for number in range(count) if (day := (first + timedelta(number)).isoformat()) not in days]
    if missing:
        some = ", ".join(missing[:SHOWN_NIGHTS]) + (", ..." if len(missing) > SHOWN_NIGHTS else "")
        notes.append(f"{len(missing)} of {count} days have no image: {some}")
    if between[0].local and not between[1].local and missing and missing[0] < (between[1].day or ""):
        notes.append(f"{between[0].label} is kept here; the registry's oldest after it is {between[1].label}: {RETENTION}")
