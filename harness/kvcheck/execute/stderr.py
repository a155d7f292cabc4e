"""The last of what an agent's process printed: bounded while it runs, harmless to a terminal when it is quoted."""

from __future__ import annotations

import re
import threading
from collections import deque

KEPT = 64 << 10
"""Bytes of output kept of one agent."""

QUOTED_LINES, QUOTED_CHARACTERS = 12, 1200
ESCAPE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?")
ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
NOISE = ("Extension modules:", "Current thread's C stack trace")


class Tail:
    """A ring of bytes that a reader fills and a supervisor quotes."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._lock = threading.Lock()

    def add(self, data: bytes) -> None:
        """Takes more output; the oldest goes when there is too much."""
        with self._lock:
            self._chunks.append(data[-KEPT:])
            self._size += len(self._chunks[-1])
            while self._size > KEPT and len(self._chunks) > 1:
                self._size -= len(self._chunks.popleft())

    def clear(self) -> None:
        """Forgets what came so far, so that a case is quoted with its own output only."""
        with self._lock:
            self._chunks.clear()
            self._size = 0

    def quote(self, hidden: str = "") -> str:
        """The last lines, cleaned.

        Args:
            hidden: a folder that differs from run to run and is left out of paths.
        """
        with self._lock:
            data = b"".join(self._chunks)
        return quote(data[-KEPT:].decode(errors="replace"), hidden)


def harmless(text: str) -> str:
    """A text that a terminal shows and does not obey: escape sequences go, other control characters become `?`; lines stay."""
    return "\n".join("".join(c if c.isprintable() or c == "\t" else "?" for c in line) for line in ESCAPE.sub("", text).splitlines())


def quote(text: str, hidden: str = "") -> str:
    """The end of a text in the form messages use: no control characters, no addresses, nothing that differs between runs."""
    if hidden:
        text = text.replace(hidden.rstrip("/") + "/", "")
    lines = [line.rstrip() for line in harmless(ADDRESS.sub("0x...", text)).splitlines()]
    lines = [line for line in lines if line and not line.startswith(NOISE)][-QUOTED_LINES:]
    joined = "\n".join(lines)
    return joined if len(joined) <= QUOTED_CHARACTERS else "..." + joined[-QUOTED_CHARACTERS:]
