"""Parts of a Markdown report that several formats have: tables of cases, errors, the environment, the command.

Text from kernels and machines stands in code spans and fences only, where mentions, references, links and HTML are inert.
"""

from __future__ import annotations

import shlex
from typing import Any

from kvcheck.report.words import choose, error_text, images, rows
from kvcheck.report.words.clean import clean, code, fence
from kvcheck.report.words.numbers import some

AROUND = 8
"""Cases shown around a flip, or where there is none."""

TABLES = 4
ERRORS = 5
FACTS = 40
LEADING = ("kvcheck", "python", "torch", "triton", "aiter", "vllm", "rocm", "hip", "cuda", "device name", "device arch", "device count")
ALSO = ("torch_build", "driver", "container", "git", "files", "modules")
"""Facts of the environment that a maintainer asks for first."""


def case_tables(cases: list[dict[str, Any]], thresholds: list[dict[str, Any]], most: int = TABLES) -> list[str]:
    """Headings and tables of the cases around each flip; where there is no flip, of those that tell most.

    Args:
        cases: rows of run.json.
        thresholds: its `thresholds`.
        most: tables.
    """
    parts: list[str] = []
    for threshold in [threshold for threshold in thresholds if threshold.get("flips")][:most]:
        chosen = choose.around(cases, threshold, AROUND)
        if chosen:
            flip, axis = threshold["flips"][0], code(threshold["axis"], 40)
            where = f"{axis} {min(flip['last_pass'], flip['first_fail'])} and {max(flip['last_pass'], flip['first_fail'])}"
            parts += [f"### Cases around {code(threshold['provider'], 80)} between {where}", _axis_table(threshold["axis"], chosen)]
    if parts or not cases:
        return parts
    chosen = choose.most_telling(cases, AROUND)
    left = len(cases) - len(chosen)
    return ["### Cases" + (f" that tell most ({some(left, 'other')} in run.json)" if left else ""), _case_table(chosen)]


def _axis_table(axis: str, chosen: list[dict[str, Any]]) -> str:
    head = (code(axis, 40, table=True), "verdict", "ratio to bound, model", "set match (chance)", "first bad")
    return table(head, [[str(row["params"][axis]), *_evidence(row)] for row in chosen])


def _case_table(chosen: list[dict[str, Any]]) -> str:
    head = ("provider", "case", "verdict", "ratio to bound, model", "set match (chance)", "first bad")
    cells = [[code(row.get("provider"), 80, table=True), code(row.get("id"), 300, table=True), *_evidence(row)] for row in chosen]
    return table(head, cells)


def _evidence(row: dict[str, Any]) -> list[str]:
    # A case that proves nothing has a reason; where its elements differ is of no interest.
    said = [rows.place(row), row.get("message")] if rows.is_judged(row) else [row.get("message"), rows.place(row)]
    last = "" if rows.verdict(row) == "pass" else said[0] or said[1] or ""
    texts = [rows.shown(row), rows.ratio(row), rows.set_match(row)]
    return [*(code(text, 120, table=True) for text in texts), code(last, 120, table=True)]


def image_table(cases: list[dict[str, Any]]) -> list[str]:
    """A heading and a table of verdicts, one column an image; nothing for a run of one place."""
    found = images.columns(cases)
    if not found:
        return []
    heads, lines, note = found
    cells = [[code(cell, 300, table=True) for cell in row] for row in lines]
    return ["### By image", table([code(head, 80, table=True) for head in heads], cells), *([note] if note else [])]


def errors(cases: list[dict[str, Any]], most: int = ERRORS) -> list[str]:
    """One failing case of each kind in a fence, and how many more there are; empty where none fails."""
    chosen, more = choose.failures(cases, most)
    if not chosen:
        return []
    parts = [fence("\n\n".join(error_text(row) for row in chosen))]
    return [*parts, f"{some(more, 'more failing case')} in run.json."] if more else parts


def facts(run: dict[str, Any]) -> list[tuple[str, str]]:
    """The environment of a run, flat: what and value, in run.json's order; the run's id, start and seed at the end."""
    found: list[tuple[str, str]] = []

    def collect(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                collect(f"{prefix} {key}".strip(), item)
        elif value not in (None, "", []):
            found.append((prefix, ", ".join(map(str, value)) if isinstance(value, list) else str(value)))

    collect("", run.get("environment") or {})
    info = run.get("run") or {}
    for key in ("id", "started", "seed"):
        collect(f"run {key}", info.get(key))
    return found


def first_facts(run: dict[str, Any]) -> list[tuple[str, str]]:
    """The facts that a maintainer asks for first."""
    known = facts(run)
    return [fact for name in LEADING for fact in known if fact[0] == name] + [fact for fact in known if fact[0].partition(" ")[0] in ALSO]


def environment(run: dict[str, Any], chosen: list[tuple[str, str]] | None = None, most: int = FACTS) -> str:
    """The environment as a table.

    Args:
        run: run.json.
        chosen: facts; None: all of the run's.
        most: rows.
    """
    chosen = facts(run) if chosen is None else chosen
    return table(("what", "value"), [[code(name, 60, table=True), code(value, 200, table=True)] for name, value in chosen[:most]])


def command(run: dict[str, Any]) -> str:
    """The command that made the run."""
    text = (run.get("run") or {}).get("command") or ""
    return clean(shlex.join(map(str, text)) if isinstance(text, list) else text)


def table(head: tuple[str, ...], body: list[list[str]]) -> str:
    """A Markdown table of cells that are Markdown already."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
