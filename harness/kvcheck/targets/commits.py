"""Which commits of a repository hold exactly the files that are installed: versions lie, contents do not."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvcheck.targets.trees import Commit, Repository, Score

SAMPLES = 9
"""Commits, evenly spread over the history, that are asked where a package's folder lies: it may have been moved."""

SHOWN = 40
"""Commits that an answer lists."""

GENERATED = ("_version.py", "version.py", "_build_info.py")
"""Files that a build writes."""


@dataclass(frozen=True)
class Match:
    """The commits whose Python files are nearest to the installed ones.

    Attributes:
        commits: them, the oldest first.
        matched, total: installed Python files that are theirs, of those that the repository knows by path.
        differ: paths that are not theirs.
        missing: Python files of theirs that are not installed.
        strange: installed Python files that no commit has: written by a build, or by somebody.
        others, others_total: the same of all other files (kernels, configurations), counted where the repository knows the path.
        others_differ: paths of them that are not theirs.
        folder: of the package in the repository.
        main: those of the commits that are in HEAD's history, in its order.
        tags: names of tags at these commits.
    """

    commits: tuple[Commit, ...]
    matched: int
    total: int
    differ: tuple[str, ...] = ()
    missing: int = 0
    strange: tuple[str, ...] = ()
    others: int = 0
    others_total: int = 0
    others_differ: tuple[str, ...] = ()
    folder: str = ""
    main: tuple[str, ...] = field(default=())
    tags: tuple[str, ...] = field(default=())

    @property
    def whole(self) -> bool:
        """Whether these commits have every installed file that a repository could have, with its content."""
        added = [path for path in self.strange if path.rpartition("/")[2] not in GENERATED]
        return bool(self.total) and self.matched == self.total and not self.others_differ and not added


def match(repository: Repository, package: Mapping[str, Any]) -> Match | None:
    """The commits that hold a package.

    Args:
        repository: where it was built from, as far as is known.
        package: of the agent's contents: files, beside.

    Returns:
        match: None where the repository has no folder of that package.
    """
    files = {path: sha for path, sha in package["files"].items() if path.endswith(".py")}
    commits = repository.commits()
    best: dict[str, tuple[int, int]] = {}
    known: set[str] = set()
    folder_of: dict[str, str] = {}
    trees = list(dict.fromkeys(commit.tree for commit in commits))
    for folder in _folders(repository, trees, files, os.path.basename(package["folder"] or "")):
        below = repository.below(trees, folder)
        scores, seen = repository.scores(set(below.values()), files, ".py")
        known |= seen
        for tree, inner in below.items():
            rank = _rank(scores[inner])
            if rank > best.get(tree, (0, 0)):
                best[tree], folder_of[tree] = rank, folder
    if not best:
        return None
    top = max(best.values())
    kept = [tree for tree in trees if best.get(tree) == top]
    kept, others = _refine(repository, kept, folder_of, package)
    folder = folder_of[kept[0]]
    has = repository.paths(f"{kept[0]}:{folder}" if folder else kept[0])
    differ = sorted(path for path in known if has.get(path) != files[path])
    chosen = tuple(commit for commit in commits if commit.tree in set(kept))
    line, tags = repository.main_line(), repository.tags()
    return Match(
        commits=chosen,
        matched=top[0],
        total=len(known),
        differ=tuple(differ),
        missing=-top[1],
        strange=tuple(sorted(set(files) - known)),
        folder=folder,
        main=tuple(sorted((commit.sha for commit in chosen if commit.sha in line), key=line.__getitem__)),
        tags=tuple(name for commit in chosen for name in tags.get(commit.sha, ())),
        **others,
    )


def _rank(score: Score) -> tuple[int, int]:
    return score.matched, -score.more


def _folders(repository: Repository, trees: list[str], files: Mapping[str, str], name: str) -> list[str]:
    """Where the package's folder lies in a repository, by the names of its files."""
    head = repository.git("rev-parse", "-q", "--verify", "HEAD^{tree}", check=False).stdout.decode().strip()
    step = max(len(trees) // SAMPLES, 1)
    found = []
    for tree in dict.fromkeys([*([head] if head else []), *trees[::-step][:SAMPLES]]):
        paths = repository.paths(tree)
        votes = [(folder, count) for folder, count in _votes(paths, files) if f"{folder}/__init__.py".lstrip("/") in paths]
        named = [folder for folder, _ in votes if folder.rpartition("/")[2] == name]
        found += (named or [folder for folder, count in votes if count > len(files) / 2])[:1]
    return list(dict.fromkeys(found))


def _votes(paths: Iterable[str], files: Iterable[str]) -> list[tuple[str, int]]:
    """Folders under which some files lie, by name, and how many of them; the most first."""
    wanted, votes = set(files), Counter()
    for path in paths:
        parts = path.split("/")
        for cut in range(len(parts)):
            if "/".join(parts[cut:]) in wanted:
                votes["/".join(parts[:cut])] += 1
    return votes.most_common()


def _refine(repository: Repository, trees: list[str], folder_of: Mapping[str, str], package: Mapping[str, Any]) -> tuple[list[str], Any]:
    """Of trees with the same Python files those that have the most of all others; fewer only if these have every one."""
    folder = folder_of[trees[0]]
    paths = repository.paths(trees[0])
    wanted = {f"{folder}/{path}".lstrip("/"): sha for path, sha in package["files"].items() if not path.endswith(".py")}
    for inner in package["beside"].values():
        place = next((folder for folder, _ in _votes(paths, inner)), "")
        wanted |= {f"{place}/{path}".lstrip("/"): sha for path, sha in inner.items()}
    wanted = {path: sha for path, sha in wanted.items() if sha}
    scores, known = repository.scores(trees, wanted)
    most = max(score.matched for score in scores.values())
    first = next(tree for tree in trees if scores[tree].matched == most)
    has = repository.paths(first)
    differ = tuple(sorted(path for path in known if has.get(path) != wanted[path]))
    found = {"others": most, "others_total": len(known), "others_differ": differ}
    return ([tree for tree in trees if scores[tree].matched == most] if not differ else trees), found


def answer(package: Mapping[str, Any], found: Match | None, asked: bool = False) -> dict[str, Any]:
    """Which commit a package is, and how sure that is.

    Args:
        package: of the agent's contents.
        found: what its files match, or None.
        asked: whether a repository was given for it.

    Returns:
        commit: {commit (40 digits, or None), sure, sentence, commits, count, first, last, tags, matched, total, differ, strange, missing,
            others, others_total, others_differ, folder}. `sure` is "exact" (one commit, by content or by a clean checkout), "candidates"
            (several hold the same files), "nearest" (none holds all of them), "hint" (only metadata says so) or "none".
    """
    checkout, hints = package["git"], package["hints"]
    head = checkout["head"] if checkout else None
    clean = bool(head) and not checkout["changed"] and checkout["staged"] is False
    if found is None:
        said = _unmatched(package, head, clean, hints)
        if asked:
            said["sentence"] = f"the given repository has no such package; {said['sentence']}"
        return {**_EMPTY, **said}
    shas = [commit.sha for commit in found.commits]
    named = next((sha for sha in shas if sha == head or any(sha.startswith(hint["commit"]) for hint in hints)), None)
    only = shas[0] if len(shas) == 1 else None
    if found.whole and (only or (named == head and clean)):
        sure, commit = "exact", only or named
    elif found.whole:
        sure, commit = "candidates", named or (found.main[0] if len(found.main) == 1 else None)
    else:
        sure, commit = "nearest", only or named
    return {
        "commit": commit,
        "sure": sure,
        "sentence": _sentence(found, shas, named, head),
        "commits": (list(found.main) + [sha for sha in shas if sha not in set(found.main)])[:SHOWN],
        "count": len(shas),
        "first": found.main[0] if found.main else shas[0],
        "last": found.main[-1] if found.main else shas[-1],
        "tags": list(found.tags),
        **{name: getattr(found, name) for name in ("matched", "total", "missing", "others", "others_total", "folder")},
        **{name: list(getattr(found, name)) for name in ("differ", "strange", "others_differ")},
    }


_EMPTY = {
    "commit": None, "sure": "none", "sentence": "", "commits": [], "count": 0, "first": None, "last": None, "tags": [], "matched": 0,
    "total": 0, "differ": [], "strange": [], "missing": 0, "others": 0, "others_total": 0, "others_differ": [], "folder": None,
}  # fmt: skip


def _unmatched(package: Mapping[str, Any], head: str | None, clean: bool, hints: list[dict[str, str]]) -> dict[str, Any]:
    if clean:
        sentence = "the HEAD of its checkout, whose files are unchanged"
        return {"commit": head, "sure": "exact", "sentence": sentence, "commits": [head], "count": 1}
    if head:
        changed, staged = package["git"]["changed"], package["git"]["staged"]
        untold = "staged changes" if staged else "no git in there to compare its index with HEAD"
        why = some(len(changed), "changed file") if changed else untold
        sure = "nearest" if changed or staged else "hint"
        return {"commit": head, "sure": sure, "sentence": f"the HEAD of its checkout, but with {why}", "differ": changed}
    if hints:
        names = ", ".join(hint["from"] for hint in hints)
        return {"commit": hints[0]["commit"], "sure": "hint", "sentence": f"only metadata says so ({names})"}
    return {"sentence": "nothing names a commit; a repository would: --repo"}


def _sentence(found: Match, shas: list[str], named: str | None, head: str | None) -> str:
    parts = [f"{some(len(shas), 'commit')} {'has' if len(shas) == 1 else 'have'} {found.matched} of {some(found.total, 'Python file')}"]
    if found.others_total:
        parts[0] += f" and {found.others} of {some(found.others_total, 'other file')}"
    if len(shas) > 1 and found.main:
        parts.append(f"{len(found.main)} of them in HEAD's history")
    if found.tags:
        parts.append(f"tagged {', '.join(found.tags[:4])}")
    if named and len(shas) > 1:
        parts.append(f"the {'checkout' if named == head else 'metadata'} names {named[:10]} of them")
    elif head and head not in shas:
        parts.append(f"although its checkout's HEAD is {head[:10]}")
    for paths, what in (
        (found.differ, "of other content or not there"),
        (found.strange, "in no commit"),
        (found.others_differ, "not as there"),
    ):
        if paths:
            parts.append(f"{some(len(paths), 'file')} {what} ({', '.join(paths[:3])}{', ...' if len(paths) > 3 else ''})")
    if found.missing:
        parts.append(f"{some(found.missing, 'Python file')} of the commit not installed")
    return "; ".join(parts)


def some(count: int, what: str) -> str:
    """A number of things: "1 commit", "2 commits"."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
