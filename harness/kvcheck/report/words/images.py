"""A run of several images side by side: one column an image."""

from __future__ import annotations

from typing import Any

from kvcheck.report.words import rows
from kvcheck.report.words.clean import line
from kvcheck.report.words.numbers import some

MOST = 20
"""Lines of the comparison; where verdicts differ comes first."""

Row = dict[str, Any]


def label(row: Row) -> str:
    """What tells a row's image from the others of its run; "" in a run of one place."""
    return str((row.get("image") or {}).get("label") or "")


def plain_provider(row: Row) -> str:
    """A row's provider without the image that it ran in: what --provider takes."""
    return str(row.get("provider")).removesuffix(f" in {label(row)}")


def columns(cases: list[Row]) -> tuple[list[str], list[list[str]], str] | None:
    """Verdicts by image.

    Args:
        cases: rows of run.json.

    Returns:
        heads: of the columns: the case, then an image each, in the order of the run.
        lines: one a provider and case: its name, and its verdict in each image; those that differ first.
        note: what is not shown, or "".
        None where the run has one place alone.
    """
    labels = list(dict.fromkeys(label(row) for row in cases if label(row)))
    if len(labels) < 2:
        return None
    found: dict[tuple[str, str], dict[str, str]] = {}
    for row in cases:
        found.setdefault((plain_provider(row), str(row.get("id"))), {})[label(row)] = rows.verdict(row)
    verdicts = {key: [given.get(name, "-") for name in labels] for key, given in found.items()}
    ordered = sorted(verdicts, key=lambda key: len(set(verdicts[key])) == 1)  # stable: the run's order else
    providers = {provider for provider, _ in found}
    lines = []
    for provider, case in ordered[:MOST]:
        name = line(case, 300) if len(providers) == 1 else f"{line(provider, 60)}: {line(case, 300)}"
        lines.append([name, *verdicts[provider, case]])
    hidden = len(ordered) - len(lines)
    alike = sum(len(set(given)) == 1 for given in verdicts.values())
    note = f"{some(hidden, 'more case')} not shown here; in {alike} of {len(ordered)} every image has the same verdict." if hidden else ""
    return ["case", *(line(name, 80) for name in labels)], lines, note
