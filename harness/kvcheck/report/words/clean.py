"""Makes text from kernels harmless: a message may hold escape codes, rich markup, Markdown, HTML or a mention of somebody."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS and the like: titles, links, clipboard
    r"|\x1b[ -/]*[0-~]"
)


SLACK = 50
"""A line is made from so many times its limit: of more, nothing would be seen."""


def clean(text: Any) -> str:
    """Text without escape sequences, control and formatting characters; line breaks are kept as newlines, tabs as spaces."""
    text = str(text)
    if text.isprintable():  # no control, no formatting character, no line break, and so no escape sequence either
        return text
    text = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n").replace("\t", "    ")
    parts = text.split("\n")
    return "\n".join(part if part.isprintable() else "".join(map(_harmless, part)) for part in parts)


def line(text: Any, limit: int = 300) -> str:
    """Cleaned text on one line, white space collapsed, cut at a limit."""
    whole = str(text)
    if len(whole) <= limit and whole.isprintable() and "  " not in whole and whole.strip(" ") == whole:
        return whole  # most texts are a line already
    text = " ".join(clean(whole[: limit * SLACK]).split())
    if len(text) <= limit and len(whole) <= limit * SLACK:
        return text
    return text[: limit - 3].rstrip() + "..."


def code(text: Any, limit: int = 300, *, table: bool = False) -> str:
    """A Markdown code span that its content cannot end; mentions, references and HTML mean nothing in it.

    Args:
        table: inside a table, where a bar ends a cell even in code.
    """
    text = line(text, limit)
    if not text:
        return ""
    ticks = "`" * (_longest_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    span = f"{ticks}{pad}{text}{pad}{ticks}"
    return span.replace("|", "\\|") if table else span


def fence(text: Any, limit: int = 20000, language: str = "text") -> str:
    """A Markdown fence longer than any run of backticks inside."""
    text = clean(text)
    if len(text) > limit:
        text = text[:limit] + "\n..."
    ticks = "`" * max(_longest_run(text) + 1, 3)
    return f"{ticks}{language}\n{text}\n{ticks}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _harmless(character: str) -> str:
    if character == "\n":
        return character
    category = unicodedata.category(character)
    if category in ("Zl", "Zp"):
        return "\n"
    return "" if category in ("Cc", "Cf", "Cs", "Co", "Cn") else character
