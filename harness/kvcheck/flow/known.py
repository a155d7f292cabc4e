"""Known failures in a run: a nightly stays green until they change, and is red when one of them passes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kvcheck.agent.protocol import NOT_JUDGED, failed
from kvcheck.cases.known import Known, load
from kvcheck.flow import outcome

FAILS, PASSES, CHANGED = "known", "passes", "changed"


def load_all(files: Iterable[Path]) -> tuple[Known, ...]:
    """The entries of several files.

    Raises:
        CaseFileError: everything that is wrong with the first file that is not sound.
    """
    return tuple(entry for file in files for entry in load(file))


def apply(run: dict[str, Any], entries: tuple[Known, ...]) -> dict[str, Any]:
    """Says in a run which failures are known.

    Args:
        run: run.json.
        entries: of a list of known failures.

    Returns:
        run: a copy. A row has `known`: {state: known (it fails so), changed (it fails in another way), passes; reason, link, verdict}.
            `known_failures` holds the entries, each with the number of rows it met. `run.exit_code` follows.
    """
    if not entries:
        return run
    device = (run.get("environment") or {}).get("device") or {}
    met: dict[Known, dict[str, int]] = {entry: {FAILS: 0, PASSES: 0, CHANGED: 0} for entry in entries}
    rows = [_row(row, [entry for entry in entries if entry.here(device)], met) for row in run["cases"]]
    listed = [_entry(entry, counts) for entry, counts in met.items()]
    return {**run, "run": {**run["run"], "exit_code": exit_code(rows)}, "cases": rows, "known_failures": listed}


def exit_code(rows: list[dict[str, Any]]) -> int:
    """The exit code of a run whose known failures are marked.

    Returns:
        code: 1 for a failure that is not known, for one that fails in another way, and for a known one that passes; else 3 when the
            harness had trouble or nothing was judged; else 0.
    """
    verdicts = [row["verdict"] for row in rows]
    if any(is_news(row) for row in rows):
        return outcome.FAILED
    if "harness_error" in verdicts or all(verdict in NOT_JUDGED for verdict in verdicts):
        return outcome.NOTHING_JUDGED
    return outcome.PASSED


def is_news(row: dict[str, Any]) -> bool:
    """Whether a row makes a run red: a failure that is not known, or a known one that passes."""
    state = (row.get("known") or {}).get("state")
    return state == PASSES or (failed(row["verdict"]) and state != FAILS)


def _row(row: dict[str, Any], entries: list[Known], met: dict[Known, dict[str, int]]) -> dict[str, Any]:
    row = {key: value for key, value in row.items() if key != "known"}
    verdict = row["verdict"]
    if verdict in NOT_JUDGED:
        return row
    named = [entry for entry in entries if entry.names(str(row.get("id")), str(row.get("provider")))]
    if not named:
        return row
    if not failed(verdict):
        for entry in named:
            met[entry][PASSES] += 1
        telling = [entry for entry in named if not entry.may_pass]
        return {**row, "known": _said(telling[0], PASSES)} if telling else row
    output = row.get("output") or (row.get("first_bad") or {}).get("output")
    same = [entry for entry in named if entry.fails_so(verdict, output, row.get("check"))]
    state = FAILS if same else CHANGED
    for entry in same or named:
        met[entry][state] += 1
    return {**row, "known": _said((same or named)[0], state)}


def _said(entry: Known, state: str) -> dict[str, Any]:
    return {"state": state, "verdict": entry.verdict, "reason": entry.reason, "link": entry.link}


def _entry(entry: Known, counts: dict[str, int]) -> dict[str, Any]:
    optional = {name: value for name in ("output", "check", "device", "arch") if (value := getattr(entry, name)) is not None}
    return {
        "case": entry.case,
        "provider": entry.provider,
        "verdict": entry.verdict,
        **optional,
        "reason": entry.reason,
        "link": entry.link,
        "where": f"{entry.file}:{entry.line}",
        "fails": counts[FAILS],
        "passes": counts[PASSES],
        "changed": counts[CHANGED],
    }
