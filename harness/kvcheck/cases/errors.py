"""What is wrong with a case file or a selection of cases, one line a fault, all faults at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

LONGEST = 160
"""Characters of a value that a message quotes."""


@dataclass(frozen=True)
class Fault:
    """One fault: where it is, what was expected there and what was found.

    Args:
        file: the case file as the user named it, or the option that carried the value (`--set`).
        line: 1-based line in the file, or None where there is no line.
        key: dotted path of the key, such as `axes.context_len[2]`.
        expected: what is valid there, in words.
        got: what stands there.
        nearest: the valid name or value that was most likely meant.
        why: the reason or the remedy, where expected and got do not tell it.
    """

    file: str
    line: int | None
    key: str
    expected: str
    got: str
    nearest: str | None = None
    why: str | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        key = f" {clean(self.key)}:" if self.key else ""
        text = f"{clean(place)}:{key} expected {clean(self.expected)}, got {clean(self.got)}"
        if self.why:
            text += f" ({clean(self.why)})"
        return text + (f"; nearest: {clean(self.nearest)}" if self.nearest else "")


class CaseFileError(Exception):
    """Every fault found; `str` gives one line each. The command line exits with 2."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults: tuple[Fault, ...] = tuple(dict.fromkeys(faults))
        super().__init__("\n".join(str(fault) for fault in self.faults))


def quote(value: Any) -> str:
    """A value as a message shows it: as YAML has it, on one line, not longer than LONGEST."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return _clip(repr(value))


def clean(text: str) -> str:
    """Text that stays on one line and carries no control character to the terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in str(text))


def _clip(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
