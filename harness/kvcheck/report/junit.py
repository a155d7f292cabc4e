"""JUnit XML for CI systems: one test case a row, a suite a provider.

`failure` is a wrong answer, `error` a crash, a timeout or trouble of the harness, `skipped` a case that could not be judged or that fails
as it is known to. A known failure that passes is a `failure`. A case of several processes (`--fresh`) has one `failure`, and beside it
`rerunFailure` for each other process where all failed, `flakyFailure` where some did.
"""

from __future__ import annotations

from typing import Any

from kvcheck.report.words import error_text, known, rows, sections
from kvcheck.report.words.clean import line
from kvcheck.report.words.junit_xml import End, Suite, Test, document, seconds
from kvcheck.report.words.numbers import number

ERRORS = frozenset({"crash", "timeout", "harness_error"})
RERUNS = 20
"""Processes of a case that get an element each."""


def render(run: dict[str, Any]) -> str:
    """The run as JUnit XML."""
    info = run.get("run") or {}
    shared = [(f"environment.{name.replace(' ', '.')}", value) for name, value in sections.facts(run)]
    shared.append(("command", sections.command(run)))
    suites: dict[str, Suite] = {}
    for row in run["cases"]:
        name = str(row.get("provider"))
        if name not in suites:
            suites[name] = Suite(name, properties=tuple(shared), started=str(info.get("started") or ""))
        suites[name].tests.append(_test(row))
    return document(f"kvcheck {info.get('id') or ''}", suites.values())


def _test(row: dict[str, Any]) -> Test:
    group = f"{line(row.get('provider'), 120)}.{line(rows.axes(row)[0], 80)}"
    told = [("max_bound_ratio", ratio)] if (ratio := rows.ratio(row)) not in ("-", "trivial") else []
    if row.get("repeats"):
        repeats = row["repeats"]
        told.append(("failing_processes", f"{number(repeats.get('failing_processes'))} of {number(repeats.get('processes'))}"))
    if known.state(row):
        told += [("known.reason", str(row["known"].get("reason"))), ("known.link", str(row["known"].get("link")))]
    return Test(group, str(row.get("id")), seconds((row.get("timing") or {}).get("total_ms")), _ends(row), tuple(told))


def _ends(row: dict[str, Any]) -> tuple[End, ...]:
    verdict, message = rows.verdict(row), line(row.get("message")) or "no message"
    state, entry = known.state(row), row.get("known") or {}
    if state == "known":
        said = f"known failure ({verdict}): {line(entry.get('reason'), 200)} {line(entry.get('link'), 120)}"
        return (End("skipped", "kvcheck.known", said, error_text(row)),)
    if state == "passes":
        said = f"known failure passes now: remove it from the list: {line(entry.get('reason'), 200)} {line(entry.get('link'), 120)}"
        return (End("failure", "kvcheck.known_failure_passes", said),)
    if verdict == "pass":
        return ()
    if verdict in ("unsupported", "invalid_case"):
        return (End("skipped", f"kvcheck.{verdict}", f"{verdict}: {message}"),)
    tag = "error" if verdict in ERRORS else "failure"
    return (End(tag, verdict, f"{rows.shown(row)}: {message}", error_text(row)), *_reruns(row, tag, verdict, message))


def _reruns(row: dict[str, Any], tag: str, verdict: str, message: str) -> tuple[End, ...]:
    """An element for every other process in which the case failed."""
    repeats = row.get("repeats") or {}
    processes, failing = repeats.get("processes"), repeats.get("failing_processes")
    if not isinstance(processes, int) or not isinstance(failing, int):
        return ()
    kind = f"{'rerun' if failing == processes else 'flaky'}{tag.capitalize()}"
    more = range(2, min(failing, RERUNS) + 1)
    return tuple(End(kind, verdict, f"failing process {turn} of {failing}, {processes} run: {message}") for turn in more)
