"""One failing case shrunk: what its row asked for, what counts as the same failure, and the search over its axes."""

from __future__ import annotations

import dataclasses
import re
import shlex
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from kvcheck.agent import specs
from kvcheck.agent.protocol import NOT_JUDGED
from kvcheck.cases.model import Case
from kvcheck.cases.values import case_id
from kvcheck.flow import shrink_axes as axes
from kvcheck.flow.options import NothingJudged, UsageError
from kvcheck.report.words.rows import is_failure
from kvcheck.search.shrink import PASS, Budget, Point, Shrinker

Judge = Callable[[Case], dict[str, Any]]

REPEATED = {"--repeat": "repeat", "--fresh": "fresh"}


@dataclass(frozen=True)
class Shrunk:
    """What a search found.

    Attributes:
        case: the case it began with.
        smallest: the smallest case that fails alike, and its row.
        twin: the closest case that passes and its row, or None.
        axes: axes on which the twin differs from the smallest.
        evaluations: cases judged.
        steps: smaller cases met on the way.
        seconds: time spent.
        stopped_by: `evaluations`, `seconds` or `interrupt` where that ended it before nothing smaller failed alike.
        note: a sentence about what was found, or None.
    """

    case: Case
    smallest: tuple[Case, dict[str, Any]]
    twin: tuple[Case, dict[str, Any]] | None
    axes: tuple[str, ...]
    evaluations: int
    steps: int
    seconds: float
    stopped_by: str | None
    note: str | None = None

    @property
    def changed(self) -> list[tuple[str, Any, Any]]:
        """Axes that are not what they were: name, before, after."""
        before, after = self.case.params, self.smallest[0].params
        return [(name, before.get(name), after.get(name)) for name in axes.differing(before, after)]


def find_row(run: dict[str, Any], text: str) -> dict[str, Any]:
    """The failing row that CASE_ID or CASE_ID@PROVIDER names.

    Raises:
        UsageError: there is none, it did not fail, or several providers have it.
    """
    cases = run["cases"]
    rows = [row for row in cases if text in (row["id"], f"{row['id']}@{row['provider']}")]
    if not rows:
        near = specs.nearest(text, [row["id"] for row in cases if is_failure(row)] or [row["id"] for row in cases])
        raise UsageError(f"CASE_ID: expected a case of the run, got {text!r}; nearest: {near}")
    wrong = [row for row in rows if is_failure(row)]
    if not wrong:
        near = specs.nearest(text, [row["id"] for row in cases if is_failure(row)])
        said = f"; nearest: {near}" if near else "; no case of this run failed"
        raise UsageError(f"CASE_ID: expected a case that failed, got {text!r}, whose verdict is {rows[0]['verdict']}{said}")
    if len(wrong) > 1:
        names = ", ".join(f"{row['id']}@{row['provider']}" for row in wrong)
        raise UsageError(f"CASE_ID: expected one row, got {text!r} of {len(wrong)} providers; name one of {names}")
    return wrong[0]


def rebuild(row: dict[str, Any]) -> Case:
    """The case of a row of run.json, with everything that its agent was asked for."""
    words = shlex.split(row.get("repro") or "")
    asked: dict[str, Any] = {
        name: int(value) for word, value in zip(words, words[1:], strict=False) if (name := REPEATED.get(word)) and value.isdigit()
    }
    given = re.fullmatch(r"(.+) \(given\)", str(row.get("precision") or ""))
    if given:
        asked["precision"] = given[1]
    asked["relations"] = [entry["name"] for entry in row.get("relations") or ()]
    asked |= row.get("asked") or {}
    known = specs.axes(row["op"])
    return Case(
        id=row["id"],
        case_file=row["case_file"],
        op=row["op"],
        provider=row["provider"],
        params={name: value for name, value in row["params"].items() if name in known},
        seed=row["seed"],
        **{**asked, "relations": tuple(asked["relations"])},
    )


def identity(row: dict[str, Any]) -> Hashable:
    """The failure of a row: verdict, output and check, of a crash its exception or signal, of a pipeline its first wrong stage; PASS where
    something could have failed, and did not; None of everything else."""
    verdict = row["verdict"]
    if verdict == "pass" or verdict in NOT_JUDGED:
        return PASS if verdict == "pass" and row.get("element_count", 1) else None
    where = row.get("first_bad") or {}
    crash = _crash(row) if verdict == "crash" else None
    return verdict, row.get("output") or where.get("output"), row.get("check"), crash, row.get("first_wrong_stage")


def told(row: dict[str, Any]) -> str:
    """The failure of a row in words."""
    known = identity(row)
    if not isinstance(known, tuple):
        return str(row["verdict"])
    verdict, output, check, crash, stage = known
    parts = (verdict, output and f"of {output}", check and f"in {check}", crash and f"({crash})", stage and f"of stage {stage}")
    return " ".join(part for part in parts if part)


def shrink_case(case: Case, judge: Judge, budget: Budget, expected: dict[str, Any] | None = None) -> Shrunk:
    """The smallest case that fails as one does, and the closest one that passes.

    Args:
        case: one that fails.
        judge: the row of a case.
        budget: what may be spent; the first evaluation looks whether the case still fails.
        expected: the row whose failure is looked for; None takes what the case does now.

    Raises:
        NothingJudged: it does not fail, or not in this way.
    """
    began = time.monotonic()
    rows: dict[str, dict[str, Any]] = {}

    def made(point: Point) -> Case:
        return dataclasses.replace(case, id=_id(case, point), params=point)

    def answer(point: Point) -> Hashable:
        row = rows[_id(case, point)] = judge(made(point))
        return identity(row)

    search = Shrinker(case.params, answer, budget, possible=lambda point: not specs.check_params(case.op, point))
    first = rows[_id(case, case.params)] if rows else {"verdict": "harness_error", "message": "the case does not fit the op"}
    wanted = search.identity if expected is None else identity(expected)
    if not isinstance(search.identity, tuple) or search.identity != wanted:
        was = f"{told(expected)} in the run, " if expected else ""
        raise NothingJudged(f"{case.id} does not repeat: {was}{told(first)} now: {first.get('message') or 'nothing was said'}")
    twin = None
    try:
        search.run(axes.passes(case.op))
        search.run([*axes.data_passes(case.op), *axes.passes(case.op)])  # a key that stays holds on to its length: last
        twin = search.twin(list(axes.steps(case.op, search.best)), lambda point: axes.distance(case.op, search.best, point))
    except KeyboardInterrupt:
        search.stopped_by = "interrupt"
    smallest = search.best
    return Shrunk(
        case,
        (made(smallest), rows[_id(case, smallest)]),
        None if twin is None else (made(twin), rows[_id(case, twin)]),
        () if twin is None else tuple(axes.differing(smallest, twin)),
        search.evaluations,
        search.steps,
        round(time.monotonic() - began, 1),
        search.stopped_by,
    )


def _id(case: Case, point: Point) -> str:
    """The id of a point of a search: what is not as in the case it began with."""
    changed = {name: point.get(name) for name in axes.differing(case.params, point)}
    return case_id("shrinking", changed)


def _crash(row: dict[str, Any]) -> str | None:
    """The exception or the signal that a crash was."""
    message = str(row.get("message") or "").removeprefix(f"first wrong stage: {row.get('first_wrong_stage')}: ")
    found = re.search(r"\bSIG[A-Z0-9]+\b", message) or re.match(r"[A-Za-z_][\w.]*", message)
    return found[0] if found else None
