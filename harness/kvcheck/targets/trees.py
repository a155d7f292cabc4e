"""A repository's objects by plumbing: commits, and how many files of a folder each tree holds. Nothing is checked out, nothing fetched."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kvcheck.execute.errors import UsageError

ENTRY = re.compile(rb"([0-7]+) ([^\0]+)\0(.{20})", re.DOTALL)
"""One entry of a tree object: mode, name, id."""

BATCH = 4000
TREE = b"40000"
LINKED = b"160000"
SAFE = ("-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")


Entry = tuple[bytes, bytes, bytes]
Node = tuple[bytes, bytes]
"""A tree at its path: one at two paths is looked at twice, since other files are sought there."""


@dataclass(frozen=True)
class Commit:
    """One commit: its id, the id of its tree, and its time in seconds."""

    sha: str
    tree: str
    time: int


@dataclass
class Score:
    """What a folder of a tree has of the files looked for.

    Attributes:
        matched: files at their path with their content.
        more: files of the tree that were not looked for, of the kind that is counted.
    """

    matched: int = 0
    more: int = 0

    def add(self, part: Score) -> None:
        """Counts a part as well."""
        self.matched += part.matched
        self.more += part.more


class Repository:
    """A clone, bare or not.

    Args:
        folder: the clone.

    Raises:
        UsageError: there is no repository.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not folder.is_dir():
            raise UsageError(f"expected a git repository, got {str(folder)!r}, which is not there")
        said = self.git("rev-parse", "--git-dir", check=False)
        if said.returncode:
            raise UsageError(f"expected a git repository, got {str(folder)!r}: {said.stderr.decode(errors='replace').strip()}")

    def git(self, *words: str, given: bytes = b"", check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """Runs one git command, read-only.

        Raises:
            UsageError: it failed, and `check`; or there is no git.
        """
        # A partial clone is not completed, a replaced object is not the one that was installed.
        environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1", "GIT_NO_REPLACE_OBJECTS": "1", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
            environment.pop(name, None)
        try:
            done = subprocess.run(["git", *SAFE, "-C", str(self.folder), *words], input=given, capture_output=True, env=environment)
        except OSError as error:
            raise UsageError(f"git is needed to look into {self.folder}: {error}") from None
        if check and done.returncode:
            raise UsageError(f"git {words[0]} in {self.folder} failed: {done.stderr.decode(errors='replace').strip()[:500]}")
        return done

    def commits(self) -> list[Commit]:
        """Every commit of every branch, tag and other reference, the oldest first."""
        head = ["HEAD"] if not self.git("rev-parse", "--verify", "-q", "HEAD", check=False).returncode else []
        lines = self.git("log", "--all", *head, "--format=%H %T %ct").stdout.decode().splitlines()
        found = [Commit(sha, tree, int(time)) for sha, tree, time in map(str.split, lines)]
        return sorted(found, key=lambda commit: commit.time)

    def main_line(self) -> dict[str, int]:
        """Commits of HEAD's history by their place in it, the oldest 0."""
        done = self.git("rev-list", "--topo-order", "--reverse", "HEAD", check=False)
        return {sha: place for place, sha in enumerate(done.stdout.decode().split())}

    def tags(self) -> dict[str, list[str]]:
        """Names of the tags at each commit."""
        lines = self.git("for-each-ref", "--format=%(refname:short) %(objectname) %(*objectname)", "refs/tags").stdout.decode().splitlines()
        found: dict[str, list[str]] = {}
        for name, *shas in map(str.split, lines):
            found.setdefault(shas[-1], []).append(name)
        return found

    def paths(self, tree: str) -> dict[str, str]:
        """Every file of a tree and its blob; links to other repositories left out."""
        entries = self.git("ls-tree", "-r", "-z", tree).stdout.decode(errors="surrogateescape").split("\0")
        parts = (entry.partition("\t") for entry in entries if entry)
        return {path: head.split()[2] for head, _, path in parts if head.split()[1] == "blob"}

    def below(self, trees: Iterable[str], folder: str) -> dict[str, str]:
        """The tree of a folder in each tree that has it.

        Args:
            trees: ids of top trees.
            folder: path in them; "" is the top itself.
        """
        trees = list(dict.fromkeys(trees))
        if not folder:
            return {tree: tree for tree in trees}
        asked = "".join(f"{tree}:{folder}\n" for tree in trees).encode()
        lines = self.git("cat-file", "--batch-check", given=asked).stdout.decode(errors="replace").splitlines()
        pairs = ((tree, line.split()) for tree, line in zip(trees, lines, strict=True))
        return {tree: words[0] for tree, words in pairs if len(words) == 3 and words[1] == "tree"}

    def scores(self, trees: Iterable[str], files: Mapping[str, str], counted: str | None = None) -> tuple[dict[str, Score], set[str]]:
        """How much of some files each tree holds.

        Level by level, every tree at its path once: neighbouring commits share nearly all of theirs.

        Args:
            trees: ids of trees.
            files: blob of each path, as from the trees' top.
            counted: ending of the files that count as `more`; None counts none.

        Returns:
            scores: by tree.
            known: those paths that any of the trees has.
        """
        wanted = nested(files)
        top = list(dict.fromkeys(trees))
        level = {(b"", bytes.fromhex(tree)) for tree in top}
        levels: list[dict[Node, tuple[Score, list[Node]]]] = []
        known: set[bytes] = set()
        suffix = counted.encode() if counted else None
        while level:
            found: dict[Node, tuple[Score, list[Node]]] = {}
            folders: dict[bytes, list[bytes]] = {}
            for folder, tree in level:
                folders.setdefault(tree, []).append(folder)
            for tree, entries in self._trees(list(folders)):
                for folder in folders[tree]:
                    found[folder, tree] = _look(folder, entries, wanted, suffix, known)
            levels.append(found)
            level = {child for _, children in found.values() for child in children}
        for upper, lower in zip(levels[-2::-1], levels[:0:-1], strict=True):
            for score, children in upper.values():
                for child in children:
                    score.add(lower[child][0] if child in lower else Score())
        scores = {tree: levels[0][node][0] for tree in top if (node := (b"", bytes.fromhex(tree))) in levels[0]}
        return scores, {os.fsdecode(path) for path in known}

    def _trees(self, wanted: list[bytes]) -> Iterator[tuple[bytes, list[Entry]]]:
        """Trees with their entries (mode, name, id); one that is not there (a shallow or a partial clone) is left out."""
        for begin in range(0, len(wanted), BATCH):
            asked = wanted[begin : begin + BATCH]
            data = self.git("cat-file", "--batch", given="".join(f"{tree.hex()}\n" for tree in asked).encode()).stdout
            at = 0
            for tree in asked:
                end = data.index(b"\n", at)
                words = data[at:end].split()
                at = end + 1
                if len(words) == 3:
                    yield tree, ENTRY.findall(data, at, at + int(words[2]))
                    at += int(words[2]) + 1


def nested(files: Mapping[str, str]) -> dict[bytes, dict[bytes, bytes]]:
    """Files by folder and name, as trees have them: a blob's id, or b"" for a folder that has some."""
    found: dict[bytes, dict[bytes, bytes]] = {b"": {}}
    for path, blob in files.items():
        folder, _, name = os.fsencode(path).rpartition(b"/")
        found.setdefault(folder, {})[name] = bytes.fromhex(blob)
        while folder:
            folder, _, name = folder.rpartition(b"/")
            found.setdefault(folder, {}).setdefault(name, b"")
    return found


def _look(
    folder: bytes,
    entries: list[tuple[bytes, bytes, bytes]],
    wanted: dict[bytes, dict[bytes, bytes]],
    counted: bytes | None,
    known: set[bytes],
) -> tuple[Score, list[Node]]:
    """The score of one tree's own files, and which trees below are to be looked into."""
    score, children, here = Score(), [], wanted.get(folder, {})
    for mode, name, sha in entries:
        if mode == TREE:
            path = folder + b"/" + name if folder else name
            if counted or path in wanted:
                children.append((path, sha))
        elif mode == LINKED:
            continue
        elif here.get(name):
            known.add(folder + b"/" + name if folder else name)
            score.matched += here[name] == sha
        elif counted and name.endswith(counted):
            score.more += 1
    return score, children
