"""A failed case in four lines, or five: what is wrong, where, what explains it, which case, and the command that shows it again."""

from __future__ import annotations

from typing import Any

from kvcheck.report.words import diagnosis, emulated, rows
from kvcheck.report.words.clean import clean, line
from kvcheck.report.words.numbers import number


def error_text(row: dict[str, Any]) -> str:
    """A few lines about a row of run.json's `cases` that did not pass.

    Args:
        row: a row; text in it is taken as hostile.

    Returns:
        text: four lines, a fifth where the case was diagnosed; no line break at the end.
    """
    head, *rest = clean(row.get("message") or "").strip().split("\n")
    where = row.get("first_bad") or {}
    subject = line(row.get("output") or where.get("output") or row.get("op") or "case", 60)
    dispatch = f" ({line(row['dispatch'], 400)})" if row.get("dispatch") else ""
    cause = diagnosis.explained(row)
    return "\n".join(
        [
            f"{rows.verdict(row).upper()} {subject}: {line(head, 400) or 'no message'}",
            f"  {_evidence(row, where, rest)}",
            *([f"  {cause}"] if cause else []),
            f"  case {line(row.get('id'), 400)} seed {number(row.get('seed'))}, provider {rows.provider(row)}{dispatch}",
            f"  again: {rows.again(row)}",
        ]
    )


def _evidence(row: dict[str, Any], where: dict[str, Any], rest: list[str]) -> str:
    also = f"; also failed: {line(', '.join(map(str, row['also_failed'])), 120)}" if row.get("also_failed") else ""
    things = "rows" if row.get("check") == "topk_of_logits" else "elements"
    if emulated.is_sanitizer(where):
        return emulated.evidence(where) + also
    if where:
        values = f"expected {number(where.get('expected'))}, got {number(where.get('actual'))}"
        bound = f", bound {number(where['bound'], 2)}" if where.get("bound") is not None else ""
        wrong = f"{number(row.get('bad_count'))} of {number(row.get('element_count'))} {things}, " if row.get("bad_count") else ""
        return line(f"{wrong}first at {rows.place(row)}: {values}{bound}{also}", 400)
    if any(text.strip() for text in rest):
        return "it said: " + line(" | ".join(text.strip() for text in rest if text.strip()), 400)
    if row.get("bad_count"):
        return f"{number(row['bad_count'])} of {number(row.get('element_count'))} {things}{also}"
    return "no output element was judged"
