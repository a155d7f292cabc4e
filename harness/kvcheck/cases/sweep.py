"""From a case file to its points: the whole product, every pair of values, or a seeded sample; counted before it is built."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import covertable

from kvcheck.cases import combos
from kvcheck.cases.errors import CaseFileError, Fault
from kvcheck.cases.model import CaseFile
from kvcheck.cases.space import Space
from kvcheck.cases.values import case_id

LIMIT = 20_000
"""Points of one case file, unless the user raises it."""


@dataclass(frozen=True)
class Sweep:
    """The points of a case file in sweep order, those of `include` last.

    Args:
        points: for each point, axis -> value for the swept axes and what `include` adds.
        total: how many points the product has after `exclude`.
        coverage: `full`, `pairwise` or `sample`.
    """

    points: tuple[dict[str, Any], ...]
    total: int
    coverage: str

    @property
    def sentence(self) -> str:
        """What was drawn, in words, with the fraction it is."""
        drawn = len(self.points)
        if self.coverage == "full" or drawn >= self.total:
            return f"{drawn} points, the whole product"
        share = f"{drawn} of {self.total} points ({drawn / self.total:.2%})"
        return f"{share}, every pair of values" if self.coverage == "pairwise" else f"{share}, a seeded sample"


def expand(case_file: CaseFile, file: str, limit: int = LIMIT) -> Sweep:
    """The points of a case file.

    Args:
        case_file: without faults.
        file: its name in messages.
        limit: most points that are built.

    Raises:
        CaseFileError: more points than `limit`.
    """
    space = combos.space(case_file)
    total = space.count()
    kind, size = case_file.coverage
    if kind == "sample":
        wanted = min(size or 0, total)
    elif kind == "pairwise" and len(case_file.factors) > 2:
        wanted = min(_pairs(space), total)
    else:
        wanted = total
    if wanted + len(case_file.include) > limit:
        raise CaseFileError([_too_many(case_file, file, kind, wanted + len(case_file.include), limit)])
    if kind == "sample":
        drawn = space.sample(wanted, case_file.seed)
    elif wanted < total:
        drawn = _pairwise(space)
    else:
        drawn = list(space)
    points = [_point(case_file, indices) for indices in drawn]
    seen = {case_id("", point) for point in points}
    for rule in case_file.include:
        first = {axis: case_file.values_of(axis)[0] for axis in case_file.swept}
        point = {**first, **rule.entries}
        if case_id("", point) not in seen:
            seen.add(case_id("", point))
            points.append(point)
    return Sweep(tuple(points), total, kind)


def _point(case_file: CaseFile, indices: tuple[int, ...]) -> dict[str, Any]:
    point: dict[str, Any] = {}
    for factor, index in zip(case_file.factors, indices, strict=True):
        point.update(zip(factor.axes, factor.values[index], strict=True))
    return point


def _pairs(space: Space) -> int:
    """How many pairs of values there are: pairwise coverage never needs more points."""
    return sum(len(a) * len(b) for a, b in combinations(space.domains, 2))


def _pairwise(space: Space) -> list[tuple[int, ...]]:
    """Points that hold every pair of values that some allowed point holds, in sweep order.

    covertable rather than allpairspy: it takes exclusions as conditions and looks ahead, and covered every allowed pair of
    1,900 random models with up to 40 exclusions; allpairspy's filter, told the same, missed pairs in 91 of 400. It orders by a
    hash of its own (FNV-1a), so neither PYTHONHASHSEED nor the Python version changes the points.
    """
    factors = {str(f): list(domain) for f, domain in enumerate(space.domains)}
    forbidden = [
        {"operator": "not", "condition": {"operator": "and", "conditions": [_inside(f, indices) for f, indices in rule.items()]}}
        for rule in space.exclusions
    ]
    rows = covertable.make(factors, constraints=forbidden)
    return sorted(tuple(row[str(f)] for f in range(len(factors))) for row in rows)


def _inside(factor: int, indices: frozenset[int]) -> dict[str, Any]:
    return {"operator": "in", "left": str(factor), "values": sorted(indices)}


def _too_many(case_file: CaseFile, file: str, kind: str, count: int, limit: int) -> Fault:
    line = min((line for axis in case_file.swept if (line := case_file.lines.get(axis))), default=case_file.line)
    most = "up to " if kind == "pairwise" else ""
    other = "" if kind == "sample" else ", or draw fewer with --coverage " + ("sample:N" if kind == "pairwise" else "pairwise or sample:N")
    why = f"the axes {', '.join(case_file.swept)} multiply; raise the limit with --limit {count}{other}"
    return Fault(file, line, "axes", f"a sweep of at most {limit} points", f"{most}{count} points", None, why)
