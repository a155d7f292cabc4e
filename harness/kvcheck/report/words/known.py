"""What is said of failures that are known: which there are, and what has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.report.words.clean import line
from kvcheck.report.words.numbers import count, listed, some

Quote = Callable[[str], str]
NAMED = 4
"""Entries that a sentence names."""


def state(row: dict[str, Any]) -> str | None:
    """How a row stands to the list of known failures: known, changed, passes; None where it is not on it."""
    known = row.get("known")
    found = known.get("state") if isinstance(known, dict) else None
    return found if found in ("known", "changed", "passes") else None


def tag(row: dict[str, Any]) -> str:
    """What stands behind a verdict: `known`, `known failure passes`, `known as crash`; empty where the row is on no list."""
    found = state(row)
    if found == "changed":
        return f"known as {line(row['known'].get('verdict'), 40)}"
    return {"known": "known", "passes": "known failure passes"}.get(found or "", "")


def sentences(run: dict[str, Any], quote: Quote = line) -> list[str]:
    """Paragraphs on known failures.

    Args:
        run: run.json.
        quote: how foreign text is written.
    """
    rows = [(row, found) for row in run["cases"] if (found := state(row))]
    entries = run.get("known_failures") or []
    texts = []
    failing = [row for row, found in rows if found == "known"]
    if failing:
        reasons = dict.fromkeys((str(row["known"].get("reason")), str(row["known"].get("link"))) for row in failing)
        said = listed([f"{quote(line(reason, 200))} ({quote(line(link, 200))})" for reason, link in reasons], NAMED)
        texts.append(f"{some(len(failing), 'failure is', 'failures are')} known: {said}.")
    changed = [row for row, found in rows if found == "changed"]
    if changed:
        names = listed([quote(f"{line(row.get('id'), 200)}@{line(row.get('provider'), 80)}") for row in changed], NAMED)
        was = listed(list(dict.fromkeys(quote(line(row["known"].get("verdict"), 40)) for row in changed)), NAMED)
        texts.append(f"{some(len(changed), 'known failure fails', 'known failures fail')} in another way than {was}: {names}.")
    passing = [row for row, found in rows if found == "passes"]
    if passing:
        names = listed([quote(f"{line(row.get('id'), 200)}@{line(row.get('provider'), 80)}") for row in passing], NAMED)
        what = "Known failure passes now: remove it" if len(passing) == 1 else f"{count(len(passing))} known failures pass now: remove them"
        texts.append(f"{what} from the list: {names}.")
    unused = [entry for entry in entries if not (entry.get("fails") or entry.get("passes") or entry.get("changed"))]
    if unused:
        names = listed([quote(line(f"{entry.get('case')}@{entry.get('provider')} ({entry.get('where')})", 300)) for entry in unused], NAMED)
        texts.append(f"{some(len(unused), 'known failure')} met no judged case of this run: {names}.")
    return texts
