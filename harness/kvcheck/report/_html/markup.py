"""Text put into HTML: whatever a kernel says stays text."""

from __future__ import annotations

import html
import re
from typing import Any

from kvcheck.agent.protocol import NOT_JUDGED
from kvcheck.report._html.palette import SYMBOLS
from kvcheck.report.words.clean import clean, line

OPEN, CLOSE = "\x02", "\x03"
"""Marks around quoted text until it is escaped. `clean` takes control characters out, so that no foreign text holds one."""

QUOTED = re.compile(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
LONG = 48
"""Characters from which quoted words are a sentence."""

BROKEN = frozenset({"crash", "timeout"})


def text(value: Any, limit: int = 300) -> str:
    """Cleaned text on one line, escaped for content and for quoted attributes."""
    return html.escape(line(value, limit))


def block(value: Any, limit: int = 20_000) -> str:
    """Cleaned text with its line breaks, escaped."""
    whole = clean(value)
    return html.escape(whole if len(whole) <= limit else whole[:limit] + "\n...")


def quote(value: Any) -> str:
    """Marks foreign text inside a sentence of our own, for `prose`."""
    return f"{OPEN}{line(value)}{CLOSE}"


def prose(sentence: str) -> str:
    """A sentence escaped, what was quoted in it as code, or between quotation marks where it is a sentence of its own."""
    return QUOTED.sub(lambda found: _quoted(found[1]), html.escape(sentence)).replace(OPEN, "").replace(CLOSE, "")


def _quoted(said: str) -> str:
    is_sentence = len(said) > LONG and said.count("=") * 2 < said.count(" ")
    return f"<q>{said}</q>" if is_sentence else f"<code>{said}</code>"


def kind(verdict: str) -> str:
    """What a verdict amounts to: one of `palette.KINDS`."""
    if verdict == "pass":
        return "pass"
    if verdict in NOT_JUDGED:
        return "unjudged"
    return "broken" if verdict in BROKEN else "fail"


def badge(verdict: str) -> str:
    """A verdict with the colour and the symbol of what it amounts to."""
    of = kind(verdict)
    return f'<span class="badge {of}"><span aria-hidden="true">{SYMBOLS[of]}</span> {text(verdict, 40)}</span>'


def section(name: str, title: str, body: str, note: str = "") -> str:
    """A section with its heading; `note` is a line under it."""
    lead = f'<p class="note">{note}</p>' if note else ""
    return f'<section id="{name}" aria-labelledby="{name}-h"><h2 id="{name}-h">{title}</h2>{lead}\n{body}</section>\n'


def table(head: list[str], body: list[list[str]], caption: str, *, scope: bool = True) -> str:
    """A plain table of cells that are HTML already; the first cell of a row is its heading."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    lines = []
    for first, *rest in body:
        start = f'<th scope="row">{first}</th>' if scope else f"<td>{first}</td>"
        lines.append(f"<tr>{start}{''.join(f'<td>{cell}</td>' for cell in rest)}</tr>")
    return f"<table><caption>{caption}</caption><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def scrolled(content: str, label: str) -> str:
    """Content that may be wider than the page, in a region of its own that a keyboard can scroll."""
    return f'<div class="wide" role="region" aria-label="{label}" tabindex="0">{content}</div>'


def picker(name: str, label: str, options: list[str], panels: list[str]) -> str:
    """A choice between panels: the first is shown, all of them where scripts do not run."""
    if len(panels) == 1:
        return f'<div class="panel">{panels[0]}</div>'
    chosen = "".join(f'<option value="{name}-{at}">{option}</option>' for at, option in enumerate(options))
    head = f'<p class="pick"><label for="{name}">{label}</label> <select id="{name}" data-picks>{chosen}</select></p>'
    shown = [f'<div class="panel" id="{name}-{at}"{" hidden" if at else ""}>{panel}</div>' for at, panel in enumerate(panels)]
    return head + "".join(shown)
