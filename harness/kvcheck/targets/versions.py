"""Which of a package's versions lie between two ends: one line of builds, pre-releases and withdrawn ones as pip takes them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from kvcheck.agent.specs import nearest
from kvcheck.targets.base import RangeError
from kvcheck.targets.indexes import Release

VARIANT = re.compile(r"(?:^|\.)((?:rocm|cu|hip|cpu|xpu)(?:\d+(?:\.\d+)*)?)(?=\.|$)")
SHOWN = 6


@dataclass(frozen=True)
class Wanted:
    """The range that the user asked for.

    Args:
        package: name of the distribution.
        good: version at one end.
        bad: version at the other.
        find: regression or fix.
        pre: whether pre-releases count.
        any_variant: whether builds for other stacks (`+rocm7.2`, `+cu128`) count.
        with_deps: whether what a version depends on comes with it.
        module: name that it is imported under; None finds it among its files.
        repository: clone of it, to name commits.
        again: words of the command that repeat the cases one level deeper.
    """

    package: str
    good: str
    bad: str
    find: str = "regression"
    pre: bool = False
    any_variant: bool = False
    with_deps: bool = False
    module: str | None = None
    repository: Path | None = None
    again: tuple[str, ...] = ()


def chosen(releases: Sequence[Release], wanted: Wanted) -> tuple[list[Release], list[str]]:
    """The versions of a range, the oldest first, its ends included.

    Args:
        releases: all there are, the oldest first.
        wanted: the range.

    Returns:
        chosen: the versions.
        notes: what is left out and why, for the user.

    Raises:
        RangeError: an end is not there, the ends are one, in the wrong order, or built for different stacks.
    """
    notes: list[str] = []
    good, bad = (_end(releases, text, option, notes) for text, option in ((wanted.good, "--good"), (wanted.bad, "--bad")))
    older, newer = (good, bad) if wanted.find == "regression" else (bad, good)
    if good is bad:
        raise RangeError(f"--good and --bad are both {wanted.package} {good.version}: expected two versions")
    if older.version > newer.version:
        hint = "for the change that mended it: --find fix" if wanted.find == "regression" else "for the change that broke it: no --find fix"
        is_older = ("--good", good, "--bad", bad) if wanted.find == "regression" else ("--bad", bad, "--good", good)
        raise RangeError(
            f"{is_older[0]} {is_older[1].version} is newer than {is_older[2]} {is_older[3].version}: expected it to be older; {hint}"
        )
    variants = {variant_of(good.version), variant_of(bad.version)}
    if len(variants) > 1 and not wanted.any_variant:
        named = " and ".join(variant_of(end.version) or "no named stack" for end in (good, bad))
        raise RangeError(
            f"--good {good.version} and --bad {bad.version} are builds for {named}: the stack would change along the way; "
            "name two ends of one stack, or add --any-variant"
        )
    inside = [release for release in releases if older.version <= release.version <= newer.version]
    pre = wanted.pre or any(end.version.is_prerelease for end in (good, bad)) or all(release.version.is_prerelease for release in inside)
    reasons = (
        ("built for another stack", lambda release: not wanted.any_variant and variant_of(release.version) not in variants),
        ("withdrawn (yanked)", lambda release: release.yanked is not None),
        ("pre-releases (--pre takes them)", lambda release: not pre and release.version.is_prerelease),
    )
    kept = inside
    for why, left_out in reasons:
        gone = [release for release in kept if left_out(release) and release not in (good, bad)]
        kept = [release for release in kept if release not in gone]
        if gone:
            notes.append(f"{_some(gone)} left out: {why}")
    for end in (good, bad):
        if end.yanked is not None:
            notes.append(f"{end.version} was withdrawn{f': {end.yanked}' if end.yanked else ''}; it is taken because an end names it")
    without = [release for release in kept if not release.files]
    if without:
        notes.append(f"{_some(without)} without a wheel for this Python: unknown when met")
    if len(variants) > 1:
        notes.append(f"the stack changes along the range: {', '.join(sorted(variant or 'no named stack' for variant in variants))}")
    return kept, notes


def key_of(release: Release) -> str:
    """What a version's answers are remembered under: it, and the files that it is published as."""
    parts = ",".join(sorted(f"{file}={sha or ''}" for file, sha in zip(release.files, release.sha256, strict=True)))
    return f"{release.version}@{hashlib.sha256(parts.encode()).hexdigest()[:16]}"


def variant_of(version: Version) -> str:
    """The stack that a version is built for, from its local part: "rocm7.2", "cu128", ""."""
    found = VARIANT.search(version.local or "")
    return found.group(1) if found else ""


def _end(releases: Sequence[Release], text: str, option: str, notes: list[str]) -> Release:
    try:
        version = Version(text)
    except InvalidVersion:
        raise RangeError(f"{option}: expected a version such as 0.1.7 or 0.1.7+rocm7.2, got {text!r}") from None
    exact = [release for release in releases if release.version == version]
    if exact:
        return exact[0]
    local = [release for release in releases if version.local is None and Version(release.version.public) == version]
    if len(local) == 1:
        notes.append(f"{option} {text} is taken as {local[0].version}, the only build of it")
        return local[0]
    if local:
        raise RangeError(f"{option} {text}: expected one of its builds by name, {', '.join(str(release.version) for release in local)}")
    known = [str(release.version) for release in releases]
    span = f"one of {len(known)} published versions from {known[0]} to {known[-1]}"
    raise RangeError(f"{option}: expected {span}, got {text!r}; nearest: {nearest(text, known)}")


def _some(releases: Sequence[Release]) -> str:
    names = ", ".join(str(release.version) for release in releases[:SHOWN])
    more = f" and {len(releases) - SHOWN} more" if len(releases) > SHOWN else ""
    return f"{len(releases)} version{'' if len(releases) == 1 else 's'} ({names}{more})"


def one_level_deeper(
    cases: Sequence[str], providers: Sequence[str], sets: Sequence[str], only: Sequence[str], device: str
) -> tuple[str, ...]:
    """Words that run the same cases on the commits of a clone: packaged providers from its tree, files as they are."""
    words = list(cases)
    words += [word for name in providers for word in ("--provider", name if name.endswith(".py") or "@" in name else f"{name}@{{tree}}")]
    words += [word for text in sets for word in ("--set", text)] + [word for text in only for word in ("--only", text)]
    return tuple(words + (["--device", device] if device != "auto" else []))
