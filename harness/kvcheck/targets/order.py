"""Puts images in order: by the day in the tag, by a repository's ancestry for commits in tags, or by the time they were built."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from kvcheck.targets.base import RangeError
from kvcheck.targets.found import Found
from kvcheck.targets.history import git

REVISION = "org.opencontainers.image.revision"
"""Label that builders put a commit in; a hint that is used where the tag has none."""


def by_day(images: Sequence[Found]) -> list[Found]:
    """Images by the day in their tags; those of one day by when they were built, then by version."""
    return sorted(images, key=lambda image: (image.day or "", _instant(image.created), _natural(image.label)))


def by_created(images: Sequence[Found]) -> list[Found]:
    """Images by when they were built.

    Raises:
        RangeError: one has no such time, or all have the same one.
    """
    unknown = [image.label for image in images if not image.created]
    if unknown:
        raise RangeError(
            f"images cannot be put in order: {unknown[0]} does not say when it was created; name the day in --image as {{date}}"
        )
    ordered = sorted(images, key=lambda image: (_instant(image.created), _natural(image.label)))
    if len(ordered) > 1 and _instant(ordered[0].created) == _instant(ordered[-1].created):
        raise RangeError(
            f"images cannot be put in order: all of them say that they were created at {ordered[0].created}; "
            "name the day in --image as {date}, or give a list with --candidates and --order list"
        )
    return ordered


def by_commit(images: Sequence[Found], folder: Path, good: Found, bad: Found) -> tuple[list[Found], list[str]]:
    """Images whose commits lie on the way from one end's to the other's, in the repository's order.

    Args:
        images: candidates, in any order; the ends need not be among them.
        folder: a clone that has both commits; only read.
        good: the end whose commit must come first.
        bad: the other end.

    Returns:
        ordered: the ends and what lies between.
        notes: how many were left out, and why.

    Raises:
        RangeError: no repository, an end without a commit or with one that the repository has not, or no way between them.
    """
    first, last = _commit(good, folder, "good"), _commit(bad, folder, "bad")
    if first != last and _git(folder, "merge-base", "--is-ancestor", first, last).returncode:
        base = _git(folder, "merge-base", first, last).stdout.strip()
        other = _git(folder, "merge-base", "--is-ancestor", last, first).returncode == 0
        why = (
            "it comes after it (for the change that mended it: --find fix)"
            if other
            else f"they parted at {base[:12]}"
            if base
            else "they share no history"
        )
        raise RangeError(f"--order-by-git {folder}: commit {first[:12]} of {good.label} does not lead to {last[:12]} of {bad.label}: {why}")
    listed = _git(folder, "rev-list", "--topo-order", "--reverse", "--ancestry-path", f"{first}..{last}").stdout.split()
    place = {commit: number for number, commit in enumerate([first, *listed])}
    inside, aside, unknown, nameless = [], 0, [], 0
    for image in {**{image.reference: image for image in images}, good.reference: good, bad.reference: bad}.values():
        named = commit_of(image)
        if named is None:
            nameless += 1
            continue
        commit = named if named in place else _whole(named, folder)
        if commit is None:
            unknown.append(named)
        elif commit in place:
            inside.append((place[commit], image))
        else:
            aside += 1
    notes = []
    if aside:
        notes.append(f"{_images(aside)} of commits that are not between the ends left out")
    if unknown:
        notes.append(f"{_images(len(unknown))} left out, since {folder} does not have their commits ({unknown[0][:12]}): fetch them")
    if nameless:
        notes.append(f"{_images(nameless)} without a commit in the tag left out")
    return [image for _, image in sorted(inside, key=lambda pair: (pair[0], _instant(pair[1].created)))], notes


def commit_of(image: Found) -> str | None:
    """The commit in an image's tag, else the one that its labels name."""
    named = image.tag.commit if image.tag else None
    labelled = image.labels.get(REVISION, "")
    return named or (labelled if re.fullmatch("[0-9a-f]{7,64}", labelled) else None)


def _commit(end: Found, folder: Path, which: str) -> str:
    named = commit_of(end)
    if named is None:
        raise RangeError(
            f"--order-by-git: the {which} end {end.label} has no commit in its tag or labels; name it in --image as {{commit}}"
        )
    if _git(folder, "rev-parse", "--git-dir").returncode:
        raise RangeError(f"--order-by-git: expected a git repository, got {folder}")
    commit = _whole(named, folder)
    if commit is None:
        raise RangeError(f"--order-by-git {folder}: commit {named} of the {which} end is not there; fetch it, or name another clone")
    return commit


def _whole(commit: str, folder: Path) -> str | None:
    found = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    return found.stdout.strip() or None


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return git("-C", str(folder), *words)


def _instant(created: str | None) -> float:
    """Seconds of an ISO time; engines write up to nine digits of a second and a Z, which older Pythons do not read."""
    if not created:
        return 0.0
    text = re.sub(r"(\.\d{6})\d+", r"\1", created.strip().replace("Z", "+00:00"))
    text = re.sub(r"\.(\d{1,5})(?=[+-]|$)", lambda found: "." + found[1].ljust(6, "0"), text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.now().astimezone().tzinfo)).timestamp()


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text) if part]


def _images(count: int) -> str:
    return f"{count} image{'' if count == 1 else 's'}"
