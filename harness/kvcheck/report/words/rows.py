"""What one row of run.json's `cases` says, as short texts."""

from __future__ import annotations

import shlex
from typing import Any

from kvcheck.agent.protocol import NOT_JUDGED, failed
from kvcheck.report.words import emulated, known
from kvcheck.report.words.clean import line
from kvcheck.report.words.numbers import number, share

Row = dict[str, Any]

COLOURS = {"pass": "green", "unsupported": "yellow", "invalid_case": "yellow", "harness_error": "magenta"}


def verdict(row: Row) -> str:
    """The verdict, harmless even if it is none."""
    return line(row.get("verdict") or "harness_error", 40)


def shown(row: Row) -> str:
    """The verdict, and beside it whether the failure is a known one."""
    tag = known.tag(row)
    return f"{verdict(row)} ({tag})" if tag else verdict(row)


def is_failure(row: Row) -> bool:
    """Whether the row blames its kernel."""
    return failed(verdict(row))


def is_judged(row: Row) -> bool:
    """Whether the row says anything about its kernel."""
    return verdict(row) not in NOT_JUDGED


def identity(row: Row) -> tuple[str, ...]:
    """Provider and failure identity: rows that fail alike."""
    where = row.get("first_bad") or {}
    return tuple(str(part) for part in (row.get("provider"), verdict(row), row.get("output") or where.get("output"), row.get("check")))


def axes(row: Row) -> tuple[str, dict[str, str]]:
    """Case name and swept axes, from the id."""
    name, bracket, inside = str(row.get("id", "")).partition("[")
    pairs = [pair.partition("=") for pair in inside.removesuffix("]").split(",")] if bracket else []
    return line(name, 80), {line(axis, 40): line(value, 80) for axis, equals, value in pairs if equals}


def provider(row: Row) -> str:
    """Provider and its version."""
    version = row.get("provider_version")
    return line(f"{row.get('provider')} {version}" if version else row.get("provider"), 120)


def precision(row: Row) -> str:
    """The precision model, and whether it was declared, probed, given or assumed."""
    model = row.get("precision")
    if isinstance(model, dict):
        model = f"{model.get('model')} ({model.get('origin') or model.get('source')})"
    return line(model, 80) if model else "no precision model"


def trivial(row: Row, metric: str) -> bool:
    """Whether a metric could not have failed."""
    return metric in (row.get("trivial") or ())


def ratio(row: Row, *, model: bool = True) -> str:
    """The worst ratio of difference to bound and the model behind the bound; never a ratio alone."""
    value = (row.get("metrics") or {}).get("max_bound_ratio")
    if trivial(row, "max_bound_ratio"):
        return "trivial"
    if value is None:
        return "-"
    return f"{number(value, 3)} {precision(row)}" if model else number(value, 3)


def set_match(row: Row) -> str:
    """The raw set match beside its chance level; `trivial` where it could not have failed."""
    metrics = row.get("metrics") or {}
    # What a quick reproducer prints, beside an input that can prove nothing.
    positional = metrics.get("topk_positional_match") if verdict(row) == "invalid_case" else None
    shown = "" if positional is None else f", positional {share(positional)}"
    if trivial(row, "topk_set_match"):
        return "trivial" + shown
    if metrics.get("topk_set_match") is None:
        return "-" + shown
    chance = metrics.get("topk_set_match_chance")
    return f"{share(metrics['topk_set_match'])} (chance {'unknown' if chance is None else share(chance)}){shown}"


def place(row: Row) -> str:
    """Where the first bad element is."""
    where = row.get("first_bad")
    if not where:
        return ""
    if emulated.is_sanitizer(where):
        return emulated.place(where)
    text = f"[row {number(where.get('row'))}, position {number(where.get('position'))}]"
    if where.get("block") is not None:
        text += f" block {number(where['block'])} offset {number(where.get('offset'))}"
    return line(text, 120)


def again(row: Row) -> str:
    """The exact command that repeats the case."""
    if row.get("repro"):
        return line(row["repro"], 2000)
    words = ["kvcheck", "run", str(row.get("case_file")), "--only", str(row.get("id")), "--provider", str(row.get("provider"))]
    return line(shlex.join(words), 2000)
