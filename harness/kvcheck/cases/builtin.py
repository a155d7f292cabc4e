"""The case files that come with kvcheck, and finding case files by name or path."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import kvcheck
from kvcheck.agent.specs import nearest
from kvcheck.cases.errors import CaseFileError, Fault, quote

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class Found:
    """A case file: what names it on the command line, and where it is."""

    ref: str
    path: Path


def root() -> Path:
    """The folder of the built-in case files: inside the package in a wheel, `cases/` in a checkout."""
    package = Path(kvcheck.__file__).resolve().parent
    inside = package / "builtin"
    return inside if inside.is_dir() else package.parents[1] / "cases"


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """The names of the built-in case files, folder included, suffix not."""
    top = root()
    return tuple(sorted(path.relative_to(top).with_suffix("").as_posix() for path in top.rglob("*.yaml")))


def find(text: str) -> Found:
    """The case file that a name or a path means.

    Args:
        text: a path, or the name of a built-in one, its folder and suffix left out where that is unambiguous.

    Raises:
        CaseFileError: no such file, or several.
    """
    try:
        path = Path(text).expanduser()  # run.json writes the user's folder as `~`
        if text and path.is_file() and (text.endswith(SUFFIXES) or "/" in text):
            return Found(text, path)
    except (OSError, ValueError, RuntimeError):  # no such user, a name too long, or one that holds a null byte, is no file
        pass
    name = text
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    known = names()
    if name in known:
        return Found(name, root() / f"{name}.yaml")
    matching = [full for full in known if full.rsplit("/", 1)[-1] == name]
    if len(matching) == 1:
        return Found(matching[0], root() / f"{matching[0]}.yaml")
    if matching:
        raise CaseFileError([Fault("CASE", None, "", "one case file: " + " or ".join(matching), quote(text), matching[0])])
    bare = {full.rsplit("/", 1)[-1]: full for full in known}
    near = nearest(name, known) or bare.get(nearest(name.rsplit("/", 1)[-1], bare) or "")
    got = f"the folder {text!r}" if text and _is_folder(text) else quote(text)
    raise CaseFileError([Fault("CASE", None, "", "a case file (a path, or the name of a built-in one: kvcheck list cases)", got, near)])


def _is_folder(text: str) -> bool:
    try:
        return Path(text).is_dir()
    except (OSError, ValueError):
        return False
