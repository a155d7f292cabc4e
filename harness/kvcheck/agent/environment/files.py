"""Reads small files of the system, and shortens paths."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path


def short(path: str) -> str:
    """A path as a report may show it: the environment's and the user's own folders by name."""
    for folder, name in ((sys.prefix, "<prefix>"), (os.path.expanduser("~"), "~")):
        if path == folder or path.startswith(folder + os.sep):
            return name + path[len(folder) :]
    return path


def first(path: str, pattern: str) -> str | None:
    """What the first group of a pattern finds in a file, or None."""
    found = re.search(pattern, read(path), re.MULTILINE)
    return found.group(1).strip() if found else None


def read(path: str | Path) -> str:
    """The text of a file; empty where it cannot be read."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
