"""What of an image the cases can reach, as one hash: images that are alike in it answer alike, and one run is enough."""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvcheck.agent import specs
from kvcheck.agent.protocol import parse_provider
from kvcheck.execute.containers.engine import Engine, Image, Mount
from kvcheck.execute.launch import absolute_provider
from kvcheck.targets import contents as looked

AROUND = ("vllm", "sglang")
"""Servers: they change every night, and no kernel package imports them."""


@dataclass(frozen=True)
class Packages:
    """What is in an image.

    Args:
        facts: of each package, what it is: version and commit, as people read it.
        commits: of each package whose commit is known.
        key: equal for two images exactly when everything that the cases can reach is the same by content; None when that is not known.
    """

    facts: Mapping[str, str]
    commits: Mapping[str, str]
    key: str | None = None


class Look:
    """Tells what is in images.

    Args:
        providers: of the cases, as typed.
        packages: import names of further packages to name.
        repositories: clones of packages, by import name: commits are told by them.
        mounts: what containers see of this machine.

    Attributes:
        keys: whether two images can be told to be alike: whatever the providers take from them is known by name.
    """

    def __init__(
        self,
        providers: Sequence[str],
        packages: Sequence[str] = (),
        repositories: Mapping[str, Path] | None = None,
        mounts: Sequence[Mount] = (),
    ) -> None:
        self._repositories = repositories or {}
        self._mounts = mounts
        named = [imports(provider) for provider in providers]
        self.keys = all(names is not None for names in named)
        self._named = {name for names in named for name in names or ()}
        self._packages = sorted({*self._named, *packages, *self._repositories})

    def __call__(self, engine: Engine, image: Image) -> Packages:
        """The packages of an image that is here.

        Raises:
            StartError: it did not answer.
            UsageError: a clone is none.
        """
        found = looked.ask_image(engine, image.id, self._packages, self._mounts)
        looked.settle(found, self._repositories)
        commits = {name: row["commit"] for name, row in looked.brief(found).items() if row["commit"]}
        return Packages(looked.summary(found), commits, self._key(found, image) if self.keys else None)

    def _key(self, found: Mapping[str, Any], image: Image) -> str | None:
        around = [name for name in AROUND if name not in self._named]
        packages = {name: package for name, package in found["packages"].items() if name not in around}
        if any(not package["digest"] for name, package in packages.items() if name in self._named):
            return None
        apart = {package["distribution"] for name, package in found["packages"].items() if name in around}
        parts = {
            "packages": {name: package["digest"] for name, package in packages.items()},
            "distributions": {name: version for name, version in found["distributions"].items() if name not in apart},
            "python": found["python"],
            "stacks": [found["rocm"], found["cuda"]],
            "environment": dict(image.env),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def imports(provider: str) -> set[str] | None:
    """Packages that a provider takes from the image, by import name; None where that cannot be told.

    Args:
        provider: as typed: a name stands for the package of that name, a file for what it imports.
    """
    name, _, directory = parse_provider(provider)
    if name.endswith(".py"):
        return _imports_of(Path(absolute_provider(provider)))
    if name.startswith("fault:") or directory is not None:
        return set()
    known = specs.names("providers")
    return {name} if name in known and name not in ("torch_eager", "triton") else set()


def below(
    good: Packages,
    bad: Packages,
    names: tuple[str, str],
    cases: Sequence[str],
    providers: Sequence[str],
    clones: Mapping[str, Path],
    more: Sequence[str] = (),
) -> list[list[str]]:
    """Commands that look for the commit in a package that differs between two images.

    Args:
        good: what the last good image has.
        bad: what the first bad one has.
        names: what the two are called.
        cases: case files, as typed.
        providers: as typed.
        clones: of packages, by import name.
        more: further words of the command: where and how its cases run.

    Returns:
        commands: without the program's name; a word that holds `<...>` is for the user to fill in.
    """
    heads = {name: provider for provider in providers if (name := parse_provider(provider)[0]) in specs.names("providers")}
    commands = []
    for package, provider in heads.items():
        if package not in good.facts or good.facts[package] == bad.facts.get(package):
            continue
        commits = [side.commits.get(package) or f"<commit of {package} in {name}>" for side, name in zip((good, bad), names, strict=True)]
        folder = str(clones[package]) if package in clones else f"<clone of {package}>"
        head = provider.partition("@")[0]
        commands.append(
            ["bisect", "git", folder, "--good", commits[0], "--bad", commits[1], *cases, "--provider", f"{head}@{{tree}}", *more]
        )
    return commands


def _imports_of(file: Path) -> set[str] | None:
    """Top-level names that a file imports and the standard library does not have; None for a file that is in the image alone."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in (
            "import_module",
            "__import__",
            "exec",
        ):
            return None
    return {name for name in names if name not in sys.stdlib_module_names} - {"kvcheck", "kvcheck_references"}


Contents = Callable[[Engine, Image], Packages]
