"""The commit of a source checkout, and whether its files are those of the commit."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from kvcheck.agent.environment.files import read

TIMEOUT_S = 10.0
STATUS = ("--no-optional-locks", "-c", "core.fsmonitor=false", "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")


def described(place: Path) -> str | None:
    """The commit of the checkout that a path lies in, with ` (changed)` where its files are not the commit's; None outside of one.

    Git itself tells whether they are; where it is not there, or takes too long, the commit stands alone.
    """
    found = _checkout(place)
    revision = _commit(found[1]) if found else None
    if not found or not revision:
        return revision
    try:
        done = subprocess.run(
            ["git", "-C", str(found[0]), *STATUS], capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return revision
    return f"{revision} (changed)" if done.returncode == 0 and done.stdout.strip() else revision


def revision(place: Path) -> str | None:
    """The commit of the checkout a package lies in, read without git; None for an installed package."""
    found = _checkout(place)
    return _commit(found[1]) if found else None


def _checkout(place: Path) -> tuple[Path, Path] | None:
    """The root of a checkout and its git folder."""
    for folder in [place, *place.parents]:
        if folder.name in ("site-packages", "dist-packages"):
            return None
        git = folder / ".git"
        if git.is_file() and (link := re.match(r"gitdir:\s*(.+)", read(git))):
            git = (folder / link.group(1).strip()).resolve()
        if git.is_dir():
            return folder, git
    return None


def _commit(git: Path) -> str | None:
    head = read(git / "HEAD").strip()
    if not head.startswith("ref:"):
        return head or None
    name = head.partition(":")[2].strip()
    # A worktree keeps its HEAD, and its branches lie in the main checkout.
    common = (git / (read(git / "commondir").strip() or ".")).resolve()
    loose = read(common / name).strip()
    packed = re.search(rf"^([0-9a-f]{{40,}}) {re.escape(name)}$", read(common / "packed-refs"), re.MULTILINE)
    return loose or (packed.group(1) if packed else None)
