"""What changed between two runs, or between two providers of one run: one entry a case, and what may explain it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from kvcheck.agent.protocol import NOT_JUDGED, failed
from kvcheck.flow.compare_thresholds import moved
from kvcheck.flow.outcome import FAILED, NOTHING_JUDGED, PASSED
from kvcheck.report.words import known, rows, sections

SCHEMA = "kvcheck.compare/1"
DRIFT = 4.0
"""Factor by which `max_bound_ratio` may change without being told."""

FLOOR = 1e-6
"""Ratios below it are taken as it: rounding makes large factors of nothing."""

SHOWN = ("verdict", "output", "check", "message", "dispatch", "provider_version", "bad_count", "element_count", "repro")
PASSING = frozenset({"run id", "run started", "device memory_bytes", "executable", "variables KVCHECK_AGENT"})
"""Facts that differ from run to run and explain nothing."""

Row = dict[str, Any]


def compare(a: dict[str, Any], b: dict[str, Any], *, drift: float = DRIFT, across: bool = False) -> dict[str, Any]:
    """Pairs the rows of two runs and says what is different.

    Args:
        a, b: run.json, before and after.
        drift: factor of `max_bound_ratio` from which a passing case is told.
        across: rows are paired by case alone, for runs of two providers; also where each run has one provider and those differ.

    Returns:
        result: `kvcheck.compare/1`: {a, b, across, drift, counts, entries, versions, thresholds, exit_code}. An entry is {id, provider,
            change, worse, before, after, known, factor}; `change` is same, newly_failing, newly_passing, changed, not_judged_any_more,
            judged_now, known_passes, drift, only_before or only_after.
    """
    names = [list(dict.fromkeys(str(row.get("provider")) for row in run["cases"])) for run in (a, b)]
    across = across or (len(names[0]) == len(names[1]) == 1 and names[0] != names[1])
    before, after = _by_key(a["cases"], across), _by_key(b["cases"], across)
    entries = [_entry(before.get(key), after.get(key), drift) for key in dict.fromkeys([*before, *after])]
    news = {row.get("provider") for row in b["cases"] if failed(row["verdict"]) and known.state(row) != "known"}
    flips = moved(a.get("thresholds") or [], b.get("thresholds") or [], across)
    thresholds = [{**entry, "worse": entry["worse"] and entry["provider"] in news} for entry in flips]
    counts = Counter(entry["change"] for entry in entries)
    return {
        "schema": SCHEMA,
        "a": _side(a, names[0]),
        "b": _side(b, names[1]),
        "across": across,
        "drift": drift,
        "counts": dict(sorted(counts.items())),
        "entries": entries,
        "versions": [*_versions(a, b), *_provider_versions(before, after)],
        "thresholds": thresholds,
        "exit_code": _exit_code(entries, thresholds),
    }


def split(run: dict[str, Any], first: str, second: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """One run of two providers as two runs, one of each."""

    def of(name: str) -> dict[str, Any]:
        mine = {key: [row for row in run.get(key) or [] if row.get("provider") == name] for key in ("cases", "thresholds")}
        return {**run, **mine}

    return of(first), of(second)


def _by_key(cases: Iterable[Row], across: bool) -> dict[tuple[str, ...], Row]:
    found: dict[tuple[str, ...], Row] = {}
    for row in cases:
        found.setdefault((str(row.get("id")),) if across else (str(row.get("id")), str(row.get("provider"))), row)
    return found


def _side(run: dict[str, Any], names: list[str]) -> dict[str, Any]:
    info = run.get("run") or {}
    return {**{key: info.get(key) for key in ("id", "started", "command", "verdict_counts")}, "providers": names}


def _entry(before: Row | None, after: Row | None, drift: float) -> dict[str, Any]:
    row = after or before or {}
    change, worse = _change(before, after)
    factor = _factor(before, after) if change == "same" and before and after else None
    if factor is not None and not 1 / drift < factor < drift:
        change = "drift"
    entry = {"id": row.get("id"), "op": row.get("op"), "provider": row.get("provider"), "change": change, "worse": worse}
    if change == "same":
        return {**entry, "verdict": row.get("verdict")}
    if before and after and before.get("provider") != after.get("provider"):
        entry["providers"] = [before.get("provider"), after.get("provider")]
    entry |= {name: _shown(side) for name, side in (("before", before), ("after", after)) if side}
    if change == "drift":
        entry["factor"] = factor
    if known.state(row):
        entry["known"] = row["known"]
    if before and after and before.get("input_fingerprint") != after.get("input_fingerprint"):
        entry["other_inputs"] = True
    return entry


def _change(before: Row | None, after: Row | None) -> tuple[str, bool]:
    """What happened to a case, and whether it got worse."""
    if before is None or after is None:
        # A run may be a part of the other: what is not in both says nothing, whatever it is.
        return ("only_before" if after is None else "only_after"), False
    was, now = str(before["verdict"]), str(after["verdict"])
    state = known.state(after)
    if state == "passes":
        return "known_passes", True
    if failed(now):
        fine = state == "known"
        if not failed(was):
            return "newly_failing", not fine
        return ("same", False) if rows.identity(before)[1:] == rows.identity(after)[1:] else ("changed", not fine)
    if now in NOT_JUDGED:
        if was == now:
            return "same", False
        if was in NOT_JUDGED:
            return "changed", now == "harness_error"
        return "not_judged_any_more", was == "pass" or now == "harness_error"
    if was == "pass":
        return "same", False
    return ("newly_passing" if failed(was) else "judged_now"), False


def _factor(before: Row, after: Row) -> float | None:
    """How many times larger the ratio to the bound became; None where one of them was not measured or could not have failed."""
    values = []
    for row in (before, after):
        value = (row.get("metrics") or {}).get("max_bound_ratio")
        if row["verdict"] != "pass" or rows.trivial(row, "max_bound_ratio") or isinstance(value, (bool, str)) or value is None:
            return None
        values.append(max(value, FLOOR) if math.isfinite(value) else math.inf)
    return values[1] / values[0] if all(map(math.isfinite, values)) else None


def _shown(row: Row) -> dict[str, Any]:
    found = {key: row[key] for key in SHOWN if row.get(key) not in (None, "", 0)}
    ratio = (row.get("metrics") or {}).get("max_bound_ratio")
    extra = {"max_bound_ratio": ratio, "precision": row.get("precision"), "first_bad": row.get("first_bad")}
    return {**found, **{key: value for key, value in extra.items() if value is not None}}


def _versions(a: dict[str, Any], b: dict[str, Any]) -> list[dict[str, Any]]:
    """Facts of the environment that differ."""
    before, after = dict(sections.facts(a)), dict(sections.facts(b))
    names = [name for name in dict.fromkeys([*before, *after]) if name not in PASSING and not name.startswith("paths ")]
    return [_fact(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)]


def _provider_versions(before: dict[tuple[str, ...], Row], after: dict[tuple[str, ...], Row]) -> list[dict[str, Any]]:
    """Providers whose own version differs between paired rows."""
    found: dict[tuple[Any, ...], None] = {}
    for key, row in before.items():
        other = after.get(key)
        versions = (row.get("provider_version"), other.get("provider_version")) if other else (None, None)
        if other and row.get("provider") == other.get("provider") and versions[0] != versions[1]:
            found.setdefault((str(row.get("provider")), *versions))
    return [_fact(f"provider {name}", was, now) for name, was, now in list(found)[:50]]


def _fact(what: str, before: Any, after: Any) -> dict[str, Any]:
    return {"what": what, "before": before, "after": after}


def _exit_code(entries: list[dict[str, Any]], thresholds: list[dict[str, Any]]) -> int:
    """1 when something got worse; else 3 when no case was judged on both sides; else 0."""
    if any(entry["worse"] for entry in [*entries, *thresholds]):
        return FAILED
    both = [entry for entry in entries if entry["change"] in ("newly_passing", "changed", "drift", "newly_failing")]
    judged = both or [entry for entry in entries if entry["change"] == "same" and entry["verdict"] not in NOT_JUDGED]
    return PASSED if judged else NOTHING_JUDGED
