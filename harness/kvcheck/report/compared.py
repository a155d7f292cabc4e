"""A comparison of two runs in every format that runs have: table, markdown, github, json, csv, junit."""

from __future__ import annotations

import csv as csv_writer
import io
import json as json_writer
from typing import Any

from kvcheck.agent.protocol import plain
from kvcheck.report.words import changes, sections
from kvcheck.report.words.clean import code, fence, line
from kvcheck.report.words.junit_xml import End, Suite, Test, document
from kvcheck.report.words.numbers import number, some

FORMATS = ("table", "markdown", "github", "json", "csv", "junit")
LISTED = 40
"""Entries under a heading of a text."""

GITHUB = 60_000
COLUMNS = ("id", "provider", "change", "worse", "known", "factor", "before", "after", "again")
FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def render(result: dict[str, Any], form: str) -> str:
    """A comparison (`kvcheck.compare/1`) in one format."""
    made = {"table": _table, "markdown": _markdown, "github": _github, "json": _json, "csv": _csv, "junit": _junit}
    return made[form](result)


def _table(result: dict[str, Any]) -> str:
    head = changes.headline(result)
    lines = [head[:1].upper() + head[1:] + ".", *changes.summary(result)]
    for heading, entries in changes.groups(result):
        lines += ["", f"{heading} ({len(entries)})"]
        for entry in entries[:LISTED]:
            case, provider, before, after = (line(text, 400) for text in changes.cells(entry))
            lines += [f"  {case}  {provider}", f"    {before}  ->  {after}{_factor(entry)}"]
            if entry["worse"] and (entry.get("after") or {}).get("repro"):
                lines.append(f"    again: {line(entry['after']['repro'], 2000)}")
        if len(entries) > LISTED:
            lines.append(f"  {some(len(entries) - LISTED, 'more case')}: --format csv has every one")
    if result["thresholds"]:
        lines += ["", "Flips", *(f"  {text}" for text in changes.flips(result))]
    if result["versions"]:
        lines += ["", "What differs around them"]
        lines += [f"  {line(fact['what'], 80)}: {_value(fact['before'])} -> {_value(fact['after'])}" for fact in result["versions"]]
    return "\n".join(lines) + "\n"


def _markdown(result: dict[str, Any], most: int = LISTED) -> str:
    parts = [f"## kvcheck compare: {changes.headline(result)}", *changes.summary(result, code)]
    for heading, entries in changes.groups(result):
        body = [
            [code(text + (_factor(entry) if i == 3 else ""), 300, table=True) for i, text in enumerate(changes.cells(entry))]
            for entry in entries[:most]
        ]
        parts += [f"### {heading} ({len(entries)})", sections.table(changes.HEAD, body)]
        if len(entries) > most:
            parts.append(f"{some(len(entries) - most, 'more case')}.")
    if result["thresholds"]:
        parts += ["### Flips", "\n".join(f"- {text}" for text in changes.flips(result, code)[:most])]
    if result["versions"]:
        facts = [
            [code(text, 200, table=True) for text in (fact["what"], _value(fact["before"]), _value(fact["after"]))]
            for fact in result["versions"]
        ]
        parts += ["### What differs around them", sections.table(("what", "before", "after"), facts[:most])]
    again = next(
        (entry["after"]["repro"] for entry in result["entries"] if entry["worse"] and (entry.get("after") or {}).get("repro")), None
    )
    parts += ["### Again", fence(line(again, 2000))] if again else []
    return "\n\n".join(parts) + "\n"


def _github(result: dict[str, Any]) -> str:
    """The Markdown, with as many entries under each heading as fit a comment."""
    marker = f"\n<!-- kvcheck report compare.{'.'.join(_plain_name(result[side].get('id')) for side in ('a', 'b'))} -->\n"
    for most in (LISTED, 20, 8, 3, 1):
        text = _markdown(result, most) + marker
        if len(text) + sum(character > "\uffff" for character in text) <= GITHUB:
            break
    return text


def _json(result: dict[str, Any]) -> str:
    return json_writer.dumps(plain(result), allow_nan=False, indent=1) + "\n"


def _csv(result: dict[str, Any]) -> str:
    """What is not the same, one row a case."""
    out = io.StringIO()
    writer = csv_writer.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for entry in result["entries"]:
        if entry["change"] == "same":
            continue
        case, provider, before, after = changes.cells(entry)
        known, factor = (entry.get("known") or {}).get("state"), entry.get("factor")
        again = (entry.get("after") or {}).get("repro") or (entry.get("before") or {}).get("repro")
        record = (
            case,
            provider,
            entry["change"],
            "yes" if entry["worse"] else "no",
            known,
            number(factor, 3) if factor else "",
            before,
            after,
            again,
        )
        writer.writerow(map(_cell, record))
    return out.getvalue()


def _junit(result: dict[str, Any]) -> str:
    """A test case for every case of both runs: it fails where the case got worse."""
    suites: dict[str, Suite] = {}
    properties = tuple((f"differs.{fact['what']}", f"{_value(fact['before'])} -> {_value(fact['after'])}") for fact in result["versions"])
    for entry in result["entries"]:
        name = str(entry.get("provider"))
        suite = suites.setdefault(name, Suite(name, properties=properties))
        case, _, before, after = changes.cells(entry)
        what = f"{entry['change']}: {before} -> {after}{_factor(entry)}"
        ends: tuple[End, ...] = ()
        if entry["worse"]:
            again = (entry.get("after") or {}).get("repro")
            ends = (End("failure", entry["change"], what, f"again: {again}" if again else ""),)
        elif entry["change"] in ("only_before", "only_after") or (entry.get("known") or {}).get("state") == "known":
            ends = (End("skipped", entry["change"], what),)
        told = () if entry["change"] == "same" else (("change", what),)
        suite.tests.append(Test(f"{line(name, 120)}.{line(case.partition('[')[0], 80)}", case, 0.0, ends, told))
    moved = [(entry, text) for entry, text in zip(result["thresholds"], changes.flips(result), strict=True)]
    for entry, text in moved:
        name = str(entry.get("provider"))
        suite = suites.setdefault(name, Suite(name, properties=properties))
        ends = (End("failure", "flip", text),) if entry["worse"] else ()
        suite.tests.append(
            Test(f"{line(name, 120)}.threshold", f"{line(entry['axis'], 40)} {line(entry['at'], 300)}", 0.0, ends, (("change", text),))
        )
    return document("kvcheck compare", suites.values())


def _factor(entry: dict[str, Any]) -> str:
    return f" (times {number(entry['factor'], 3)})" if entry.get("factor") else ""


def _value(value: Any) -> str:
    return "nothing" if value in (None, "") else line(value, 160)


def _cell(value: Any) -> str:
    """A cell that no spreadsheet takes for a formula."""
    text = "" if value is None else line(value, 2000)
    return "'" + text if text.startswith(FORMULA) else text


def _plain_name(text: Any) -> str:
    return "".join(
        character for character in str(text).partition("-")[0] if character.isascii() and (character.isalnum() or character == "_")
    )[:60]
