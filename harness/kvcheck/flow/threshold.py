"""Searches where the verdict flips along an axis: one search a provider and a point of the other axes, each evaluation a judged case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvcheck.agent import specs
from kvcheck.agent.protocol import NOT_JUDGED
from kvcheck.cases.model import Case, CaseFile
from kvcheck.flow.options import UsageError
from kvcheck.search.combinations import TooManyCombinations, combinations
from kvcheck.search.threshold import find_flips, grid_boundaries

Judge = Callable[[list[Case]], list[dict[str, Any]]]


@dataclass(frozen=True)
class Search:
    """One search.

    Attributes:
        case_file: where the other axes come from.
        provider: whose verdicts.
        axis: walked along.
        low, high: both ends included.
        at: the other axes that are settled.
    """

    case_file: CaseFile
    provider: str
    axis: str
    low: int
    high: int
    at: dict[str, Any]

    def case(self, value: int) -> Case:
        """The case at one value of the axis."""
        return self.case_file.case({**self.at, self.axis: value}, self.provider)


def plan(case_file: CaseFile, axis: str | None = None, ends: tuple[int, int] | None = None, every: bool = False) -> list[Search]:
    """The searches of a case file.

    Args:
        case_file: without faults.
        axis: None takes the file's threshold block.
        ends: None takes the block's range, or the axis' smallest value to the largest that the file has.
        every: search past four combinations of the other axes.

    Raises:
        UsageError: an axis without an order, an empty or impossible range, or too many combinations.
    """
    block = case_file.threshold
    axis = axis or (block.axis if block else None)
    if axis is None:
        raise UsageError(f"{case_file.name}: no threshold block in the file; name an axis with --axis")
    known = specs.axes(case_file.op)
    ordered = [name for name, entry in known.items() if entry.type in ("int", "lengths")]
    if axis not in ordered:
        raise UsageError(f"--axis: expected one of {', '.join(ordered)}, got {axis!r}; nearest: {specs.nearest(axis, ordered)}")
    same = block if block and block.axis == axis else None
    low, high = ends or ((same.low, same.high) if same else _span(case_file, axis))
    if low > high:
        raise UsageError(f"{case_file.name}: the range of {axis} is empty: {low}..{high}")
    others = {name: case_file.values_of(name) for name in case_file.swept if name != axis}
    fixed = {name: value for name, value in (same.at if same else {}).items() if name not in case_file.replaced}
    try:
        points = combinations(others, fixed, every=every)
    except TooManyCombinations as error:
        raise UsageError(f"{case_file.name}: {error}") from error
    searches = [Search(case_file, provider, axis, low, high, at) for provider in case_file.providers for at in points]
    for search in searches:
        for end in (low, high):
            problems = specs.check_params(case_file.op, search.case(end).params)
            if problems:
                raise UsageError(f"{case_file.name}: {axis} {end} cannot be: {'; '.join(map(str, problems))}")
    return searches


def find(search: Search, judge: Judge) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Runs one search.

    Args:
        search: what to look for.
        judge: rows of some cases, in order.

    Returns:
        threshold: a `thresholds` entry of run.json.
        rows: the judged cases, ascending along the axis.
    """
    rows: dict[int, dict[str, Any]] = {}

    def verdicts(values: list[int]) -> list[str]:
        judged = judge([search.case(value) for value in values])
        rows.update(zip(values, judged, strict=True))
        return [_answer(row["verdict"]) for row in judged]

    params = search.case(search.low).params
    boundaries = specs.load("ops", search.case_file.op).data.get("boundaries", {}).get(search.axis, [])
    found = find_flips(
        None,
        search.low,
        search.high,
        axis=search.axis,
        boundaries=grid_boundaries(boundaries, params),
        trivial_below=params.get("topk") if search.axis == "context_len" else None,
        judge_many=verdicts,
    )
    entry = {**found.to_dict(), "provider": search.provider, "at": search.at, "case": search.case_file.name, **found.details()}
    entry |= _trivial(entry["trivial_below"], list(rows.values()))
    return entry, [rows[value] for value in sorted(rows)]


def _trivial(below: int | None, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Up to where top-k could not have failed, if it was judged at all, and whether a bound was judged beside it."""
    metrics = [{*(row.get("metrics") or {}), *(row.get("trivial") or ())} for row in rows]
    if below is None or not any("topk_set_match" in names for names in metrics):
        return {"trivial_below": None}  # a list of slots has a length, and attention over it no top-k
    return {"trivial_below": below, "bound": any("max_bound_ratio" in names for names in metrics)}


def _answer(verdict: str) -> str:
    if verdict == "pass":
        return "pass"
    return "unknown" if verdict in NOT_JUDGED else "fail"


def _span(case_file: CaseFile, axis: str) -> tuple[int, int]:
    values = [specs.longest(value) for value in case_file.values_of(axis) if value is not None]
    limit = case_file.base().get("max_model_len") if axis == "context_len" else None
    low = max(int(specs.axes(case_file.op)[axis].min or 0), 1)
    return low, max([*values, limit or 0])
