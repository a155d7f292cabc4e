"""Which two axes tell most about failing."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from kvcheck.report._html.axes import value, varied
from kvcheck.report._html.markup import kind
from kvcheck.report.words import rows

Row = dict[str, Any]

FEW = 4
"""Up to so many providers have a table each; more are better seen as an axis."""


@dataclass(frozen=True)
class Cases:
    """Cases of one op, axis by axis.

    Attributes:
        op: its name.
        verdicts: a verdict a case.
        kinds: what each amounts to.
        texts: by axis, the value of every case; None where it has none. `provider` is one of them.
        axes: those that vary, `provider` and `case file` among them.
    """

    op: str
    verdicts: list[str]
    kinds: list[str]
    texts: dict[str, list[str | None]]
    axes: list[str]


@dataclass(frozen=True)
class Pair:
    """Two axes of an op.

    Attributes:
        cases: the op's.
        first: an axis.
        second: another.
        score: how much the two tell; the more the better.
    """

    cases: Cases
    first: str
    second: str
    score: float


def pairs(every: list[Row]) -> list[Pair]:
    """All pairs of axes of all ops, those first that tell most."""
    groups: dict[str, list[Row]] = {}
    for row in every:
        groups.setdefault(str(row.get("op")), []).append(row)
    found = [pair for op, mine in groups.items() for pair in _of_op(_columns(op, mine))]
    return sorted(found, key=lambda pair: -pair.score)


def _columns(op: str, mine: list[Row]) -> Cases:
    names = varied(mine)
    names += [name for name in ("provider", "case file") if len({value(row, name) for row in mine}) > 1]
    verdicts = [rows.verdict(row) for row in mine]
    texts = {name: [value(row, name) for row in mine] for name in dict.fromkeys([*names, "provider"])}
    return Cases(op, verdicts, [kind(verdict) for verdict in verdicts], texts, names)


def _of_op(cases: Cases) -> list[Pair]:
    sizes = {name: len(set(cases.texts[name]) - {None}) for name in cases.axes}
    longest = max((name for name in sizes if name not in ("provider", "case file")), key=lambda name: sizes[name], default=None)
    found = []
    for first, second in combinations(cases.axes, 2):
        score = _told(cases, first, second)
        score += 0.5 if longest in (first, second) else 0
        score -= 0.4 if "provider" in (first, second) and sizes["provider"] <= FEW else 0
        found.append(Pair(cases, first, second, score))
    return found


def _told(cases: Cases, first: str, second: str) -> float:
    """Bits that a cell tells about failing where the provider is known, less what as many cells would tell by chance.

    Source: Miller, Note on the bias of information estimates, 1955.
    """
    seen: Counter[tuple[str, str, str]] = Counter()
    bad: Counter[tuple[str, str, str]] = Counter()
    for one, other, provider, of in zip(cases.texts[first], cases.texts[second], cases.texts["provider"], cases.kinds, strict=True):
        if one is not None and other is not None and of != "unjudged":
            seen[one, other, str(provider)] += 1
            bad[one, other, str(provider)] += of != "pass"
    crossed = len({cell[:2] for cell in seen}) > max((len({cell[at] for cell in seen}) for at in (0, 1)), default=0)
    total = seen.total()
    if not total:
        return -2.0
    inside = sum(n / total * _entropy(bad[cell] / n) for cell, n in seen.items())
    providers, wrong = Counter(), Counter()
    for cell, n in seen.items():
        providers[cell[2]] += n
        wrong[cell[2]] += bad[cell]
    known = sum(n / total * _entropy(wrong[name] / n) for name, n in providers.items())
    cells = sum(1 for cell in seen if 0 < wrong[cell[2]] < providers[cell[2]])
    return known - inside - cells / (2 * total * math.log(2)) - (0 if crossed else 1)


def _entropy(p: float) -> float:
    return 0.0 if p in (0, 1) else -p * math.log2(p) - (1 - p) * math.log2(1 - p)
