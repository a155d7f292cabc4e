"""Files as git sees them: the hash of a blob, and the repository that a package's folder is part of, read without git."""

from __future__ import annotations

import hashlib
import os
import re
import struct
import subprocess
from typing import Any

from kvcheck.agent.contents.reading import text_of

BUILT = (".so", ".pyc", ".pyo", ".o", ".a", ".pyd", ".lock")
LARGEST = 16 << 20
"""Bytes of the largest file that a repository is thought to hold."""

INSTALLED = ("site-packages", "dist-packages")


def hashes(folder: str, python_only: bool = False) -> dict[str, str]:
    """Git's blob hash of the files under a folder that could come from a repository, by their path in it."""
    found = {}
    for path, place in _files(folder):
        if not place.endswith(BUILT) and (place.endswith(".py") or not python_only):
            value = blob(place)
            if value:
                found[path] = value
    return found


def binaries(folder: str) -> dict[str, str]:
    """SHA-256 of the files under a folder that `hashes` leaves out, by their path in it; bytecode is not looked at."""
    found = {}
    for path, place in _files(folder):
        if place.endswith((".pyc", ".pyo", ".lock")) or os.path.islink(place) or not os.path.isfile(place):
            continue
        if place.endswith(BUILT) or os.path.getsize(place) > LARGEST:
            digest = hashlib.sha256()
            try:
                with open(place, "rb") as file:
                    for piece in iter(lambda: file.read(1 << 20), b""):
                        digest.update(piece)
            except OSError:
                continue
            found[path] = digest.hexdigest()
    return found


def blob(path: str) -> str | None:
    """The hash that git gives to a file's content (of a link: its text); None for what is too large or cannot be read."""
    try:
        if os.path.islink(path):
            data = os.fsencode(os.readlink(path))
        elif os.path.isfile(path) and os.path.getsize(path) <= LARGEST:
            with open(path, "rb") as file:
                data = file.read()
        else:
            return None
    except OSError:
        return None
    data = b"blob %d\0" % len(data) + data
    try:
        return hashlib.sha1(data, usedforsecurity=False).hexdigest()
    except TypeError:  # Python 3.8
        return hashlib.sha1(data).hexdigest()


def checkout(folder: str) -> dict[str, Any] | None:
    """The repository that a package's folder is part of; nothing of its hooks or its configuration is run.

    Returns:
        git: {folder, head, path (of the package in it), changed: [paths that differ from the index], staged: whether the index differs
            from HEAD, None where there is no git to tell}; None for a folder that no repository tracks.
    """
    top = folder
    while True:
        git = os.path.join(top, ".git")
        link = re.match(r"gitdir:\s*(.+)", text_of(git)) if os.path.isfile(git) else None
        git = os.path.join(top, link.group(1).strip()) if link else git
        if os.path.isdir(git):
            break
        if os.path.basename(top) in INSTALLED or os.path.dirname(top) == top:
            return None
        top = os.path.dirname(top)
    prefix = os.path.relpath(os.path.realpath(folder), os.path.realpath(top)).replace(os.sep, "/") + "/"
    tracked = {path: sha for path, sha in index(os.path.join(git, "index")).items() if path.startswith(prefix) or prefix == "./"}
    if not tracked:  # a repository around it that is not its own
        return None
    changed = sorted(path for path, sha in tracked.items() if blob(os.path.join(top, path)) != sha)
    return {"folder": top, "head": _head(git), "path": prefix[:-1], "changed": changed, "staged": _staged(top, prefix)}


def index(path: str) -> dict[str, str]:
    """Paths and blobs of git's index file, of its versions 2 to 4; links to other repositories left out, nothing where it is damaged."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        magic, version, count = struct.unpack(">4sII", data[:12])
        found, at, name = {}, 12, b""
        for _ in range(count if magic == b"DIRC" else 0):
            mode, flags = struct.unpack(">I", data[at + 24 : at + 28])[0], struct.unpack(">H", data[at + 60 : at + 62])[0]
            sha, start = data[at + 40 : at + 60].hex(), at + (64 if flags & 0x4000 else 62)
            if version == 4:  # only what differs from the name before is written
                drop = data[start] & 127
                while data[start] & 128:
                    start += 1
                    drop = ((drop + 1) << 7) | (data[start] & 127)
                start += 1
                end = data.index(b"\0", start)
                name, at = name[: len(name) - drop] + data[start:end], end + 1
            else:
                end = data.index(b"\0", start)
                name, at = data[start:end], at + ((end - at) // 8 + 1) * 8
            if not flags & 0x3000 and mode != 0o160000:  # a stage is a conflict
                found[os.fsdecode(name)] = sha
        return found
    except (OSError, ValueError, IndexError, struct.error):
        return {}


def _staged(top: str, prefix: str) -> bool | None:
    safe = ["-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C", top]
    try:
        done = subprocess.run(
            ["git", *safe, "diff-index", "--cached", "--quiet", "--ignore-submodules", "HEAD", "--", prefix],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {0: False, 1: True}.get(done.returncode)


def _head(git: str) -> str | None:
    head = text_of(os.path.join(git, "HEAD")).strip()
    if not head.startswith("ref:"):
        return head or None
    name = head.partition(":")[2].strip()
    common = os.path.join(git, text_of(os.path.join(git, "commondir")).strip() or ".")
    packed = re.search(rf"^([0-9a-f]{{40,}}) {re.escape(name)}$", text_of(os.path.join(common, "packed-refs")), re.MULTILINE)
    return text_of(os.path.join(common, name)).strip() or (packed.group(1) if packed else None)


def _files(folder: str):
    for base, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if each not in ("__pycache__", ".git"))
        for name in sorted(names):
            place = os.path.join(base, name)
            yield os.path.relpath(place, folder).replace(os.sep, "/"), place
