"""Files as text; whatever cannot be read is empty."""

from __future__ import annotations

import os
import re


def text_of(path: str) -> str:
    """A file's text; "" where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except (OSError, ValueError):
        return ""


def assigned(path: str, name: str) -> str | None:
    """A string that a file assigns to a name, read as text."""
    found = re.search(rf"^(?:\w+\s*=\s*)*{name}\b(?:\s*:[^=\n]+)?\s*=\s*(?:\w+\s*=\s*)*['\"]([^'\"]+)['\"]", text_of(path), re.MULTILINE)
    return found.group(1) if found else None


def listed(folder: str) -> list[str]:
    """Names in a folder, sorted; none where there is no such folder."""
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
