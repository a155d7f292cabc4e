"""Commits of a repository as a range to bisect: each in a worktree of its own, beside the user's checkout and never in it.

The worktrees belong to a bare repository in the bisect's folder that borrows the user's objects: nothing of the user's repository is
written, its list of worktrees included.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvcheck.execute.containers.engine import Mount
from kvcheck.execute.containers.run_in import run_in
from kvcheck.targets.base import Candidate, Place, RangeError, Unavailable
from kvcheck.targets.history import History, git

TREE = "{tree}"
"""Stands in a provider, and in the build command, for the folder that holds the commit's files."""

LAST = 6
"""Lines of a build's output that are quoted."""


@dataclass(frozen=True)
class Build:
    """How a commit's files become what a provider can load.

    Attributes:
        command: run by `sh -c` in the worktree; None where nothing has to be built.
        timeout: seconds.
        image: image that it is built in, and that the cases run in, with its engine, or None for this machine.
    """

    command: str | None = None
    timeout: float = 3600.0
    image: Any = None


class GitTarget:
    """Commits from one end to the other, along first parents.

    Args:
        folder: a repository or a checkout; only read.
        good: revision where the cases pass.
        bad: revision where they fail.
        providers: as typed, with `{tree}` for the commit's files.
        find: regression, where good is the older end, or fix.
        paths: only commits that touch these are tried; empty: all.
        build: what comes before the cases.
        cases: as typed, for the command that goes on inside a merge.

    Raises:
        RangeError: no such repository; a provider list without `{tree}`, which would run the same kernel at every commit.
    """

    kind = "git"

    def __init__(
        self,
        folder: Path,
        good: str,
        bad: str,
        providers: Sequence[str],
        find: str = "regression",
        paths: Sequence[str] = (),
        build: Build | None = None,
        cases: Sequence[str] = (),
    ) -> None:
        self._history = History(folder)
        self._ends = (good, bad) if find == "regression" else (bad, good)
        self._names = ("--good", "--bad") if find == "regression" else ("--bad", "--good")
        self._providers, self._paths, self._build = tuple(providers), tuple(paths), build or Build()
        self._find, self._cases = find, tuple(cases) or ("<CASE>",)
        self._notes: list[str] = []
        self._folder: Path | None = None
        self._own: Path | None = None
        self._count = 0
        if not any(TREE in provider for provider in self._providers):
            raise RangeError(
                f"--provider: expected one with {TREE} in it, such as aiter@{TREE} or {TREE}/kernel.py, got"
                f" {', '.join(self._providers) or 'none'}: every commit would run the same kernel"
            )

    def open(self, folder: Path) -> None:
        """Takes the bisect's folder as the place for worktrees; what a killed bisect left there goes."""
        self._folder = folder
        for name in ("trees", "objects.git"):
            shutil.rmtree(folder / name, ignore_errors=True)

    def candidates(self) -> Sequence[Candidate]:
        """The ends and the commits between them, oldest first.

        Raises:
            RangeError: an end is not there; the ends are the wrong way round; no way leads from one to the other.
        """
        history = self._history
        last = history.commit(self._ends[1], self._names[1])
        first = self._on_the_way(history.commit(self._ends[0], self._names[0]), last)
        commits = history.between(first, last, self._paths)
        if self._paths and len(commits) < 3:
            self._notes.append(f"no commit between the ends touches {', '.join(self._paths)}")
        tags = history.tags()
        return [Candidate(each.commit, each.commit[:12], each.date, names=tuple(tags.get(each.commit, ()))[:3]) for each in commits]

    def notes(self) -> Sequence[str]:
        """Ends that others stand in for, and what was left out."""
        return list(self._notes)

    @contextmanager
    def place(self, candidate: Candidate) -> Iterator[Place]:
        """A worktree of the commit, built.

        Raises:
            Unavailable: it cannot be checked out or built.
        """
        tree = self._checkout(candidate.key)
        try:
            self._make(tree)
            about = self._history.about(candidate.key)
            facts = {"subject": about.subject, "author": about.author, "contents_key": about.tree}
            yield Place(self._launcher(tree), None, tuple(text.replace(TREE, str(tree)) for text in self._providers), facts=facts)
        finally:
            shutil.rmtree(tree, ignore_errors=True)
            self._git("worktree", "prune")

    def ahead(self, candidates: Sequence[Candidate]) -> None:
        """Nothing: objects are here already."""

    def contents(self, candidate: Candidate) -> Mapping[str, str]:
        """The commit."""
        return {self._history.name: candidate.key[:12]}

    def deeper(self, good: Candidate, bad: Candidate) -> Sequence[Sequence[str]]:
        """Into the branch, where the commit that made the difference is a merge of one."""
        changed = self._history.about(bad.key if self._find == "regression" else good.key)
        if len(changed.parents) < 2:
            return ()
        older, newer = ("--good", "--bad") if self._find == "regression" else ("--bad", "--good")
        words = ["bisect", "git", str(self._history.folder), older, changed.parents[0], newer, changed.parents[1], *self._cases]
        words += [word for provider in self._providers for word in ("--provider", provider)]
        return (words + (["--find", "fix"] if self._find == "fix" else []),)

    def plan(self) -> Mapping[str, Any]:
        """What `--dry-run` shows beside the commits."""
        return {"repository": str(self._history.folder), "build": self._build.command or "nothing to build"}

    def close(self) -> None:
        """Removes the worktrees and the repository they belong to."""
        for folder in (self._own, *((self._folder / name for name in ("trees", "objects.git")) if self._folder else ())):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def _on_the_way(self, first: str, last: str) -> str:
        """The commit that the older end is on the newer one's history: itself, one of the same tree, or where the two parted."""
        history = self._history
        if history.leads_to(first, last):
            return first
        if history.leads_to(last, first):
            hint = "--find fix" if self._find == "regression" else "leave --find fix out"
            raise RangeError(
                f"{self._names[0]} {self._ends[0]} comes after {self._names[1]} {self._ends[1]}: expected it before; for the"
                f" other direction: {hint}"
            )
        twin = history.same_tree(first, last)
        if twin:
            self._notes.append(f"{self._ends[0]} is not in the history of {self._ends[1]}; {twin[:12]}, which has the same files, is")
            return twin
        base = history.parted(first, last)
        if base:
            self._notes.append(f"{self._ends[0]} and {self._ends[1]} parted at {base[:12]}, which stands in for {self._ends[0]}")
            return base
        raise RangeError(
            f"{self._names[0]} {self._ends[0]} shares no commit with {self._names[1]} {self._ends[1]}, and no commit there has the same"
            " files: expected two ends of one history"
        )

    def _checkout(self, commit: str) -> Path:
        folder = self._folder or self._scratch()
        objects = folder / "objects.git"
        if not objects.is_dir():
            self._history.borrow(objects)
        self._count += 1
        tree = folder / "trees" / f"{commit[:12]}-{self._count}"
        done = self._git("worktree", "add", "--force", "--detach", str(tree), commit)
        if done.returncode:
            shutil.rmtree(tree, ignore_errors=True)
            raise Unavailable(f"commit {commit[:12]} cannot be checked out: {_last(done.stderr)}")
        return tree.absolute()

    def _scratch(self) -> Path:
        self._own = self._own or Path(tempfile.mkdtemp(prefix="kvcheck-git-"))
        return self._own

    def _git(self, *words: str) -> subprocess.CompletedProcess[str]:
        objects = (self._folder or self._scratch()) / "objects.git"
        return git("--git-dir", str(objects), "-c", f"core.hooksPath={os.devnull}", *words)

    def _make(self, tree: Path) -> None:
        build = self._build
        if not build.command:
            return
        words = ["sh", "-c", build.command.replace(TREE, str(tree))]
        try:
            if build.image:
                engine, image, _ = build.image
                mounts = [Mount(tree, str(tree), writable=True)]
                done: Any = run_in(engine, image, ["sh", "-c", f"cd {tree} && {words[2]}"], mounts=mounts, timeout=build.timeout)
            else:
                done = subprocess.run(words, cwd=tree, stdin=subprocess.DEVNULL, capture_output=True, timeout=build.timeout, check=False)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"the build did not end within {build.timeout:g} s") from None
        except OSError as error:
            raise Unavailable(f"the build could not be started: {error}") from error
        if done.returncode:
            said = _last((done.stdout + b"\n" + done.stderr).decode(errors="replace"))
            raise Unavailable(f"it does not build (exit status {done.returncode}): {said}")

    def _launcher(self, tree: Path) -> Any:
        if not self._build.image:
            return None
        engine, image, make = self._build.image
        return lambda folder: make(engine, image, folder, [Mount(tree, str(tree))])


def _last(text: str) -> str:
    return "\n".join([line for line in text.splitlines() if line.strip()][-LAST:])
