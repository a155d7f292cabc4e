"""Which aiter is meant: the installed package, or a source checkout at any commit, found without importing it."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from kvcheck.agent.protocol import Unsupported

DISTRIBUTIONS = ("amd-aiter", "aiter")

WRAPPERS = ("ops/triton/attention/pa_mqa_logits.py", "ops/triton/pa_mqa_logits.py")
"""The wrapper's file, newest place first: aiter moved it with 4c2a3025b6 (2026-01-07)."""


@dataclass(frozen=True)
class Source:
    """One aiter on disk.

    Attributes:
        package: the folder `aiter` itself.
        directory: the checkout that was asked for, None for the installed package.
        version: the distribution's version, None for a checkout.
        commit: the checkout's HEAD, None where there is no `.git`.
    """

    package: Path
    directory: str | None
    version: str | None
    commit: str | None

    def wrapper(self) -> Path:
        """The file with the paged logits entry points.

        Raises:
            Unsupported: this aiter has none; the operator appeared with d36601a9d0 (2025-10-14).
        """
        for relative in WRAPPERS:
            if (self.package / relative).is_file():
                return self.package / relative
        raise Unsupported(f"{self.name()} has no pa_mqa_logits.py: aiter has paged MQA logits since d36601a9d0 (2025-10-14)")

    def module(self) -> str:
        """The wrapper's module name."""
        return "aiter." + ".".join(self.wrapper().relative_to(self.package).with_suffix("").parts)

    def name(self) -> str:
        """Version or commit, for messages and reports."""
        if self.directory is None:
            return f"aiter {self.version or 'of unknown version'}"
        return f"aiter@{self.commit[:10]}" if self.commit else f"aiter checkout {self.directory} without .git"

    def relative(self, file: str | Path) -> str:
        """A file of the package as `aiter/...`, wherever the package lies."""
        path = Path(file).resolve()
        root = self.package.resolve()
        return f"aiter/{path.relative_to(root).as_posix()}" if path.is_relative_to(root) else path.name


def find(directory: str | None) -> Source:
    """The installed aiter, or the one in a checkout.

    Args:
        directory: the root of a checkout (the folder that holds `aiter/`), or None for the installed package.

    Raises:
        Unsupported: there is no aiter there.
    """
    if directory is not None:
        root = Path(directory).expanduser()
        package = root / "aiter"
        if not (package / "__init__.py").is_file():
            raise Unsupported(f"{root} is no aiter checkout: it holds no aiter/__init__.py")
        return Source(package, str(root), None, commit_of(root))
    spec = importlib.util.find_spec("aiter")
    if spec is None or spec.origin is None:
        # A folder that merely holds a folder `aiter` resolves to an empty namespace package.
        found = "" if spec is None else f" (only a folder of that name: {list(spec.submodule_search_locations or ())})"
        raise Unsupported(
            f"aiter is not installed here{found}; pip install --no-deps amd-aiter==0.1.7.post2.dev18, or name a checkout: aiter@DIR"
        )
    return Source(Path(spec.origin).parent, None, _version(), None)


def blob(file: str | Path) -> str:
    """The git blob id of a file's content: tells commits apart where versions lie or there is no `.git`."""
    data = Path(file).read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def commit_of(root: Path) -> str | None:
    """HEAD of a checkout, read from its files: git itself may be absent from a container, or refuse another user's folder."""
    git = root / ".git"
    if git.is_file():
        git = (root / git.read_text().partition("gitdir:")[2].strip()).resolve()
    head = git / "HEAD"
    if not head.is_file():
        return None
    text = head.read_text().strip()
    if not text.startswith("ref:"):
        return text or None
    ref = text[4:].strip()
    common = git / "commondir"
    homes = [git, (git / common.read_text().strip()).resolve()] if common.is_file() else [git]
    for home in homes:
        if (home / ref).is_file():
            return (home / ref).read_text().strip()
        packed = home / "packed-refs"
        for line in packed.read_text().splitlines() if packed.is_file() else ():
            if line.endswith(f" {ref}"):
                return line.split()[0]
    return None


def _version() -> str | None:
    for name in DISTRIBUTIONS:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None
