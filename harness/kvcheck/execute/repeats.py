"""One row from several new processes: what happened in which share of them, and what that excludes."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.protocol import NOT_JUDGED, failed
from kvcheck.cases.model import Case

MISSED = 0.05
"""Chance of not seeing a fault that shows in `excluded_rate` of the runs."""


def excluded_rate(runs: int) -> float:
    """The smallest share of runs in which a fault must show to be seen at least once with 95 % confidence."""
    return 1 - MISSED ** (1 / runs)


def merged(case: Case, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The row of a case that was run in new processes.

    Args:
        case: what was asked for.
        rows: one a process, in order; the last one may not have been judged.

    Returns:
        row: the first failing one, else the first; `repeats` says in how many processes it failed. Processes that pass with different
            bits are `nondeterministic`.
    """
    unjudged = next((row for row in rows if row["verdict"] in NOT_JUDGED), None)
    bad = [row for row in rows if failed(row["verdict"])]
    if unjudged and not bad:
        return unjudged
    chosen = dict(bad[0] if bad else rows[0])
    digests = {row.get("output_digest") for row in rows if row["verdict"] == "pass"}
    if not bad and len(digests) > 1:
        count = f"{len(digests)} different outputs in {len(rows)} new processes"
        chosen.update(verdict="nondeterministic", check="fresh", message=f"the same inputs gave {count}, all within the bound")
        bad = rows[1:]
    chosen["repeats"] = {
        "processes": len(rows),
        "failing_processes": len(bad),
        "calls": len(rows) * case.repeat,
        "excluded_rate": None if bad else excluded_rate(len(rows)),
    }
    if 0 < len(bad) < len(rows):
        chosen["message"] = f"in {len(bad)} of {len(rows)} new processes: {chosen['message']}"
    return chosen
