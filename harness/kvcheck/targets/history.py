"""What is asked of a repository: revisions, what lies between them, what has the same files. It is only read."""

from __future__ import annotations

import difflib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kvcheck.targets.base import RangeError

TIMEOUT = 600.0
FORMAT = "--format=%H%x00%T%x00%P%x00%cI%x00%an%x00%s"


@dataclass(frozen=True)
class About:
    """One commit: itself and its tree as hashes, its parents, when it was committed (ISO 8601), by whom it was written, its subject."""

    commit: str
    tree: str
    parents: tuple[str, ...]
    date: str
    author: str
    subject: str


def git(*words: str) -> subprocess.CompletedProcess[str]:
    """Runs git, without asking for anything and without the variables that would point it elsewhere.

    Raises:
        RangeError: git is not here, or did not end.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C.UTF-8"}
    try:
        return subprocess.run(
            ["git", "-c", "safe.directory=*", *words],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", env=environment, timeout=TIMEOUT, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise RangeError("git is needed, and not on PATH") from None
    except subprocess.TimeoutExpired:
        raise RangeError(f"git {' '.join(words[:4])} did not end within {TIMEOUT:.0f} s") from None


class History:
    """A repository's commits.

    Args:
        folder: a checkout, a folder inside one, or a bare repository.

    Raises:
        RangeError: it is none, or git is not here.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.expanduser().absolute()
        found = git("-C", str(self.folder), "rev-parse", "--git-common-dir") if self.folder.is_dir() else None
        if found is None or found.returncode:
            raise RangeError(f"DIR: expected a git repository, got {folder}")
        self.git_dir = (self.folder / found.stdout.strip()).resolve()
        self.name = self.folder.name.removesuffix(".git") or "repository"

    def commit(self, revision: str, option: str) -> str:
        """The commit that a revision names.

        Raises:
            RangeError: none, with the nearest name that there is.
        """
        found = self._in("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        if found.returncode == 0:
            return found.stdout.strip()
        names = self._in("for-each-ref", "--format=%(refname:short)").stdout.split()
        near = next(iter(difflib.get_close_matches(revision, names, 1)), "")
        raise RangeError(f"{option}: expected a revision of {self.folder}, got {revision!r}" + (f"; nearest: {near}" if near else ""))

    def leads_to(self, first: str, last: str) -> bool:
        """Whether a commit is another one's ancestor, or the same."""
        return self._in("merge-base", "--is-ancestor", first, last).returncode == 0

    def parted(self, one: str, other: str) -> str | None:
        """The last commit that two histories share."""
        return self._in("merge-base", one, other).stdout.strip() or None

    def same_tree(self, commit: str, last: str) -> str | None:
        """The newest commit of another one's history with the same files: tags of a history that was written anew have one."""
        tree = self.about(commit).tree
        lines = self._in("log", "--format=%H %T", last).stdout.splitlines()
        return next((line.split()[0] for line in lines if line.endswith(tree)), None)

    def between(self, first: str, last: str, paths: Sequence[str] = ()) -> list[About]:
        """Commits from the first to the last, both included, oldest first: along first parents where the first is met there, else one
        after the other as they depend on each other."""
        spans = (["--first-parent"], ["--topo-order", "--ancestry-path"])
        only = ["--", *paths] if paths else []
        found: list[About] = []
        for span in spans:
            every = self._in("log", FORMAT, "--reverse", *span, f"{first}..{last}").stdout
            found = [_about(line) for line in every.splitlines()]
            if span == spans[0] and found and first not in found[0].parents:
                continue
            break
        if only:
            touching = set(self._in("log", "--format=%H", *spans[0], f"{first}..{last}", *only).stdout.split())
            found = [each for each in found if each.commit in touching or each.commit == last]
        return [self.about(first), *found]

    def tags(self) -> dict[str, list[str]]:
        """Names of tags by commit."""
        found: dict[str, list[str]] = {}
        for line in self._in("for-each-ref", "--format=%(objectname) %(*objectname) %(refname:short)", "refs/tags").stdout.splitlines():
            *hashes, name = line.split()
            found.setdefault(hashes[-1], []).append(name)
        return found

    @lru_cache(maxsize=4096)  # noqa: B019 - one history a command
    def about(self, commit: str) -> About:
        """What a commit says of itself."""
        return _about(self._in("log", "-1", FORMAT, commit).stdout.rstrip("\n"))

    def borrow(self, folder: Path) -> None:
        """Makes a bare repository that has this one's objects, by reference, and no names."""
        git("init", "--quiet", "--bare", str(folder))
        (folder / "objects" / "info").mkdir(parents=True, exist_ok=True)
        (folder / "objects" / "info" / "alternates").write_text(f"{self.git_dir / 'objects'}\n")
        shallow = self.git_dir / "shallow"
        if shallow.is_file():
            (folder / "shallow").write_bytes(shallow.read_bytes())

    def _in(self, *words: str) -> subprocess.CompletedProcess[str]:
        return git("-C", str(self.folder), *words)


def _about(line: str) -> About:
    commit, tree, parents, date, author, subject = line.split("\0", 5)
    return About(commit, tree, tuple(parents.split()), date, author, subject)
