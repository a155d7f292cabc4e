"""What `kvcheck shrink` prints: a case as it was and in its smallest form, what fails, and the closest case that passes."""

from __future__ import annotations

from typing import Any

from kvcheck.report.words.clean import line
from kvcheck.report.words.diagnosis import explained
from kvcheck.report.words.numbers import some
from kvcheck.report.words.rows import place

ALL = ("nonzero_keys", "distinct_pages")
"""Axes that a case does not have before something is taken away."""

STOPPED = {
    "evaluations": "the limit of evaluations ended it, a smaller case may fail too: --max-evaluations",
    "seconds": "the limit of time ended it, a smaller case may fail too: --max-seconds",
    "interrupt": "it was interrupted, a smaller case may fail too",
}


def render(found: dict[str, Any]) -> str:
    """The report as text.

    Args:
        found: of schema kvcheck.shrunk/1, or the `shrunk` of a row beside `of`.
    """
    row, case = found["smallest"]["row"], found["of"]
    lines = [
        f"{line(case['case'], 400)}, provider {line(case['provider'], 200)}",
        f"fails in its smallest form as it did: {line(found['failure'], 200)}",
        "",
        *_axes(found),
        "",
        f"  {line(row.get('message') or 'no message', 400)}",
    ]
    if row.get("first_bad"):
        expected, actual = (line(row["first_bad"].get(side), 80) for side in ("expected", "actual"))
        lines.append(f"  first at {place(row)}: expected {expected}, got {actual}")
    if cause := explained(row):
        lines.append(f"  {cause}")
    lines += [f"  again: {line(found['smallest']['command'], 2000)}", "", *_twin(found), "", _spent(found)]
    return "\n".join(lines + ([line(found["note"], 400)] if found.get("note") else [])) + "\n"


def _axes(found: dict[str, Any]) -> list[str]:
    changed = [(line(axis, 40), "all" if axis in ALL else _value(before), _value(after)) for axis, before, after in found["changed"]]
    moved = {axis for axis, _, _ in found["changed"]}
    kept = {axis: value for axis, value in found["smallest"]["params"].items() if axis not in moved and value is not None}
    same = [f"{line(axis, 40)} {_value(value)}" for axis, value in kept.items()]
    rows = [("axis", "was", "smallest"), *changed]
    widths = [max(len(each[column]) for each in rows) for column in range(2)]
    lines = [f"  {axis:<{widths[0]}}  {before:>{widths[1]}}  {after}" for axis, before, after in rows]
    lines = lines if changed else ["  as it was: nothing smaller fails so"]
    return lines + ([f"  as before: {', '.join(same)}"] if same else [])


def _twin(found: dict[str, Any]) -> list[str]:
    twin = found["twin"]
    if twin is None:
        return ["closest case that passes: none one step away on any axis"]
    params = found["smallest"]["params"]
    steps = ", ".join(f"{line(axis, 40)} {_value(twin['params'].get(axis))} instead of {_value(params.get(axis))}" for axis in twin["axes"])
    return [f"closest case that passes: {steps}", f"  again: {line(twin['command'], 2000)}"]


def _spent(found: dict[str, Any]) -> str:
    text = f"{some(found['evaluations'], 'evaluation')}, {some(found['steps'], 'step')}, {found['seconds']:g} s"
    return text + (f"; {STOPPED[found['stopped_by']]}" if found["stopped_by"] else "; nothing smaller fails in the same way")


def _value(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return line(f"[{', '.join(map(str, value))}]", 60)
    return line(value, 60)
