"""report.md: reads well pasted into an issue, and nothing in it comes alive there.

Text from kernels and machines stands in code spans and fences only, where mentions, references, links and HTML are inert.
"""

from __future__ import annotations

import shlex
from typing import Any

from kvcheck.report.words import choose, error_text, findings, rows, threshold_sentence
from kvcheck.report.words.clean import clean, code, fence
from kvcheck.report.words.findings import headline
from kvcheck.report.words.numbers import some

AROUND = 8
TABLES = 4
ERRORS = 5
FACTS = 40


def render(run: dict[str, Any]) -> str:
    """The run as GitHub Markdown: verdict, environment, flips, the cases around them, errors, the exact command."""
    cases, thresholds = run["cases"], run.get("thresholds") or []
    flips = [threshold_sentence(threshold, code) for threshold in thresholds]
    parts = [f"## kvcheck: {headline(run)}"]
    parts += [paragraph for paragraph in findings(run, code)[1:] if paragraph not in flips]
    if flips:
        parts += ["### The flip", "\n".join(f"- {sentence}" for sentence in flips)]
    parts += _tables(cases, thresholds)
    parts += _errors(cases)
    parts += ["### Environment", _environment(run), "### The exact command", fence(_command(run), 4000)]
    return "\n\n".join(parts) + "\n"


def _tables(cases: list[dict[str, Any]], thresholds: list[dict[str, Any]]) -> list[str]:
    parts: list[str] = []
    for threshold in [threshold for threshold in thresholds if threshold.get("flips")][:TABLES]:
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
    return _table(head, [[str(row["params"][axis]), *_evidence(row)] for row in chosen])


def _case_table(chosen: list[dict[str, Any]]) -> str:
    head = ("provider", "case", "verdict", "ratio to bound, model", "set match (chance)", "first bad")
    cells = [[code(row.get("provider"), 80, table=True), code(row.get("id"), 300, table=True), *_evidence(row)] for row in chosen]
    return _table(head, cells)


def _evidence(row: dict[str, Any]) -> list[str]:
    last = "" if rows.verdict(row) == "pass" else rows.place(row) or row.get("message") or ""
    texts = [rows.verdict(row), rows.ratio(row), rows.set_match(row)]
    return [*(code(text, 120, table=True) for text in texts), code(last, 120, table=True)]


def _errors(cases: list[dict[str, Any]]) -> list[str]:
    chosen, more = choose.failures(cases, ERRORS)
    if not chosen:
        return []
    text = "\n\n".join(error_text(row) for row in chosen)
    parts = ["### What failed", fence(text)]
    return [*parts, f"{some(more, 'more failing case')} in run.json."] if more else parts


def _environment(run: dict[str, Any]) -> str:
    facts: list[list[str]] = []

    def collect(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                collect(f"{prefix} {key}".strip(), item)
        elif value not in (None, "", []):
            facts.append([code(prefix, 60, table=True), code(value, 200, table=True)])

    collect("", run.get("environment") or {})
    info = run.get("run") or {}
    for key in ("id", "started", "seed"):
        collect(f"run {key}", info.get(key))
    return _table(("what", "value"), facts[:FACTS])


def _command(run: dict[str, Any]) -> str:
    command = (run.get("run") or {}).get("command") or ""
    return clean(shlex.join(map(str, command)) if isinstance(command, list) else command)


def _table(head: tuple[str, ...], body: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
