"""`kvcheck whatis`: what one environment or image really holds, and what another has otherwise."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvcheck.agent.specs import nearest
from kvcheck.execute.containers.engine import ImageMissing
from kvcheck.execute.containers.find import find_engine
from kvcheck.flow.options import UsageError
from kvcheck.flow.where import Where
from kvcheck.targets.contents import ask_image, ask_python, find_environment, settle
from kvcheck.targets.differences import differences

SCHEMA = "kvcheck.whatis/1"
FORMATS = ("table", "json")
LABELS = ("org.opencontainers.image.revision", "org.opencontainers.image.version", "org.opencontainers.image.created")


@dataclass(frozen=True)
class Request:
    """What is asked.

    Attributes:
        subjects: one or two environments or images.
        repositories: NAME=DIR words.
        packages: import names of further packages.
        engine: that has the images, or None for the one that is found.
        mounts: DIR[:AT] words: what containers see of this machine.
        form: table or json.
    """

    subjects: tuple[str, ...]
    repositories: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    engine: str | None = None
    mounts: tuple[str, ...] = ()
    form: str = "table"


def look(request: Request, note: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Looks into each subject.

    Args:
        request: what is asked.
        note: told what takes long, such as a pull.

    Returns:
        report: {schema, subjects: [{subject, kind, image, contents}], differences (of two)}.

    Raises:
        UsageError: an option that cannot be.
        ExecuteError: a subject that does not answer.
    """
    if request.form not in FORMATS:
        raise UsageError(f"--format: expected table or json, got {request.form!r}; nearest: {nearest(request.form, FORMATS)}")
    if len(request.subjects) > 2:
        raise UsageError(f"expected one environment or image, or two to compare, got {len(request.subjects)}")
    Where(mounts=request.mounts).mounted()
    clones = repositories(request.repositories)
    subjects = [_subject(subject, request, clones, note) for subject in request.subjects]
    for name in clones:
        if not any(name in subject["contents"]["packages"] for subject in subjects):
            present = sorted({name for subject in subjects for name in subject["contents"]["packages"]})
            raise UsageError(
                f"--repo {name}=...: expected the import name of a package that is there ({', '.join(present)}), got {name!r}; "
                f"nearest: {nearest(name, present)}; another package is looked at with --package {name}"
            )
    report = {"schema": SCHEMA, "subjects": subjects}
    if len(subjects) == 2:
        report["differences"] = differences(*(subject["contents"] for subject in subjects))
    return report


def repositories(words: Sequence[str]) -> dict[str, Path]:
    """Clones by import name.

    Args:
        words: NAME=DIR each.

    Raises:
        UsageError: not of that form, or not a folder.
    """
    found = {}
    for word in words:
        name, equals, folder = word.partition("=")
        if not equals or not name.isidentifier() or not folder:
            raise UsageError(f"--repo: expected NAME=DIR with a package's import name and a clone, such as aiter=../aiter, got {word!r}")
        path = Path(folder).expanduser()
        if not path.is_dir():
            raise UsageError(f"--repo {word}: expected a folder with a git repository, got {folder!r}, which is not there")
        found[name] = path
    return found


def without_files(report: Mapping[str, Any]) -> dict[str, Any]:
    """The report with the number of each package's files in place of their hashes."""
    return {**report, "subjects": [{**subject, "contents": _counted(subject["contents"])} for subject in report["subjects"]]}


def _counted(contents: Mapping[str, Any]) -> dict[str, Any]:
    def counted(package: Mapping[str, Any]) -> dict[str, Any]:
        beside = {name: len(files) for name, files in package["beside"].items()}
        return {**package, "files": len(package["files"]), "binaries": len(package["binaries"]), "beside": beside}

    return {**contents, "packages": {name: counted(package) for name, package in contents["packages"].items()}}


def _subject(subject: str, request: Request, clones: Mapping[str, Path], note: Callable[[str], None]) -> dict[str, Any]:
    python = find_environment(subject)
    if python:
        contents, image = ask_python(python, request.packages), None
    elif _is_path(subject) and not subject.endswith(".sif"):
        raise UsageError(
            f"expected a Python, a folder of an environment (with bin/python) or an image, got {subject!r}, which is "
            + ("none of these" if os.path.exists(os.path.expanduser(subject)) else "not there")
        )
    else:
        engine = find_engine(request.engine)
        try:
            image = engine.inspect(subject)
        except ImageMissing:
            note(f"{subject} is not here: pulling it")
            image = engine.pull(subject)
        note(f"looking into {image.pinned}")
        contents = ask_image(engine, image.id, request.packages, Where(mounts=request.mounts).mounted())
    settle(contents, clones)
    named = None
    if image:
        labels = {name: image.labels[name] for name in LABELS if name in image.labels}
        named = {"reference": image.reference, "id": image.id, "digest": image.digest, "created": image.created, "labels": labels}
    return {"subject": subject, "kind": "image" if image else "environment", "image": named, "contents": contents}


def _is_path(text: str) -> bool:
    return text.startswith(("/", "./", "../", "~")) or text in (".", "..") or os.path.exists(text)
