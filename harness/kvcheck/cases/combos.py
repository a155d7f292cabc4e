"""Combinations that cannot be: within the sweep, in `include`, in the threshold block, and rules that match nothing.

Rules between axes are the op's (`specs.check_params`). Every pair of swept values is tried before anything is built, so a
fault does not depend on which points a coverage happens to draw.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, product
from typing import Any

from kvcheck.agent import specs
from kvcheck.cases import values
from kvcheck.cases.errors import Fault, quote
from kvcheck.cases.model import CaseFile, Factor, Rule
from kvcheck.cases.space import Exclusion, Space, TooManyRules

MAX_PAIRS = 50_000
"""Beyond this many pairs of values, only the points that are really drawn are checked."""


def space(case_file: CaseFile, rules: Iterable[Rule] | None = None) -> Space:
    """The product of a case file less what it excludes."""
    compiled = [compile_rule(case_file, rule) for rule in (case_file.exclude if rules is None else rules)]
    return Space([range(len(factor.values)) for factor in case_file.factors], [rule for rule in compiled if rule is not None])


def compile_rule(case_file: CaseFile, rule: Rule) -> Exclusion | None:
    """An `exclude` rule as indices a factor; None when it can never match."""
    found: Exclusion = {}
    for axis, wanted in rule.entries.items():
        factor = next((f for f, factor in enumerate(case_file.factors) if axis in factor.axes), None)
        if factor is None:
            if case_file.base().get(axis) not in wanted:
                return None
            continue
        at = case_file.factors[factor].axes.index(axis)
        hits = frozenset(i for i, entry in enumerate(case_file.factors[factor].values) if entry[at] in wanted)
        found[factor] = hits & found[factor] if factor in found else hits
    return None if any(not hits for hits in found.values()) else found


def check(case_file: CaseFile, file: str, broken: frozenset[str] = frozenset()) -> list[Fault]:
    """Every impossible combination of a case file.

    Args:
        case_file: with sound single values.
        file: its name in messages.
        broken: axes that have a fault already; what they take part in is not reported a second time.
    """
    try:
        whole = space(case_file, ())
        faults = [fault for rule in case_file.exclude for fault in _matches_nothing(case_file, rule, file, whole, broken)]
        allowed = space(case_file)
        if not broken and not faults and allowed.count() == 0:
            first = case_file.exclude[0]
            got = f"an empty product: all {whole.count()} points are excluded"
            faults.append(Fault(file, first.line, "exclude", "at least one point", got))
        found = _Found(case_file, file, broken)
        found.pairs(allowed)
        return faults + found.faults() + _includes(case_file, file, broken) + _threshold(case_file, file, broken)
    except TooManyRules:
        return [
            Fault(file, case_file.line, "exclude", "rules that can be counted", f"{len(case_file.exclude)} that interact in too many ways")
        ]


def _matches_nothing(case_file: CaseFile, rule: Rule, file: str, whole: Space, broken: frozenset[str]) -> list[Fault]:
    faults = []
    untold = case_file.replaced | broken
    for axis, wanted in rule.entries.items():
        if axis in untold:
            continue
        there = case_file.values_of(axis)
        for value in wanted:
            if value not in there:
                spelled = [values.spell(item) for item in there]
                shown = ", ".join(spelled[:20]) + (", ..." if len(spelled) > 20 else "")
                near = _nearest(value, there)
                faults.append(Fault(file, rule.line, f"{rule.key}.{axis}", f"a value of the sweep: {shown}", quote(value), near))
    if not faults and not untold.intersection(rule.entries):
        compiled = compile_rule(case_file, rule)
        if compiled is None or whole.restricted(compiled).count() == 0:
            faults.append(
                Fault(file, rule.line, rule.key, "a rule that matches at least one point", "a combination that the sweep never has")
            )
    return faults


def _nearest(value: Any, there: Iterable[Any]) -> str | None:
    numbers = [item for item in there if isinstance(item, (int, float)) and not isinstance(item, bool)]
    if isinstance(value, (int, float)) and numbers:
        return values.spell(min(numbers, key=lambda item: abs(item - value)))
    return specs.nearest(values.spell(value), [values.spell(item) for item in there])


class _Found:
    """Gathers problems of points: one fault for each set of axes, naming the first combination and how many there are."""

    def __init__(self, case_file: CaseFile, file: str, broken: frozenset[str]) -> None:
        self.case_file, self.file, self.broken = case_file, file, broken
        self.first: dict[tuple[Any, ...], tuple[specs.Problem, dict[str, Any], dict[str, int | None]]] = {}
        self.seen: dict[tuple[Any, ...], set[tuple[str, ...]]] = {}

    def add(
        self,
        params: dict[str, Any],
        lines: dict[str, int | None],
        within: frozenset[str] | None = None,
        touching: frozenset[str] | None = None,
    ) -> None:
        """Notes what `check_params` says of a point, held to problems whose axes lie `within` and meet `touching`."""
        for problem in specs.check_params(self.case_file.op, params):
            axes = problem.axes or (problem.axis,)
            if self.broken.intersection(axes) or (within is not None and not within.issuperset(axes)):
                continue
            if touching is not None and not touching.intersection(axes):
                continue
            key = (problem.axis, axes)
            self.first.setdefault(key, (problem, params, lines))
            self.seen.setdefault(key, set()).add(tuple(values.spell(params[axis]) for axis in axes))

    def pairs(self, allowed: Space) -> None:
        """Tries every value, and every pair of values, that some allowed point has."""
        case_file = self.case_file
        fixed = frozenset(case_file.base()) - frozenset(case_file.swept)
        base = _first(case_file)
        self.add(base, {}, fixed)
        if sum(len(a.values) * len(b.values) for a, b in combinations(case_file.factors, 2)) > MAX_PAIRS:
            return
        singles = [((f, factor),) for f, factor in enumerate(case_file.factors)]
        for chosen in [*singles, *combinations(enumerate(case_file.factors), 2)]:
            within = fixed.union(*(factor.axes for _, factor in chosen))
            for indices in product(*(range(len(factor.values)) for _, factor in chosen)):
                params, lines = dict(base), {}
                for (_, factor), index in zip(chosen, indices, strict=True):
                    params.update(zip(factor.axes, factor.values[index], strict=True))
                    lines.update(dict.fromkeys(factor.axes, factor.lines[index]))
                if self._possible(params, within):
                    continue
                kept = {f: frozenset([index]) for (f, _), index in zip(chosen, indices, strict=True)}
                if allowed.restricted(kept).count():
                    self.add(params, lines, within)

    def _possible(self, params: dict[str, Any], within: frozenset[str]) -> bool:
        problems = specs.check_params(self.case_file.op, params)
        return not any(within.issuperset(problem.axes or (problem.axis,)) for problem in problems)

    def faults(self) -> list[Fault]:
        """One fault a set of axes."""
        return [self._fault(key, *entry) for key, entry in self.first.items()]

    def _fault(self, key: tuple[Any, ...], problem: specs.Problem, params: dict[str, Any], lines: dict[str, int | None]) -> Fault:
        axes = problem.axes or (problem.axis,)
        shown = " with ".join(self._where(axis, params[axis], lines) for axis in axes)
        swept = [axis for axis in axes if axis in self.case_file.swept]
        count = len(self.seen[key])
        many = f", the first of {count} such combinations" if count > 1 else ""
        remedy = f"; exclude it or change {' or '.join(axes)}" if swept else ""
        why = f"{problem.why + ': ' if problem.why else ''}{shown}{many}{remedy}"
        line = lines.get(problem.axis) or self.case_file.lines.get(problem.axis)
        line = line or next((at for axis in axes if (at := lines.get(axis) or self.case_file.lines.get(axis))), self.case_file.line)
        return Fault(
            self.file, line, self.case_file.places.get(problem.axis, problem.axis), problem.expected, problem.got, problem.nearest, why
        )

    def _where(self, axis: str, value: Any, lines: dict[str, int | None]) -> str:
        line = lines.get(axis) or self.case_file.lines.get(axis)
        place = f"line {line}" if line else "--set" if axis in self.case_file.replaced else "default"
        return f"{axis} {values.spell(value)} ({place})"


def points(case_file: CaseFile, file: str, drawn: Iterable[dict[str, Any]]) -> list[Fault]:
    """What the op's rules say of points that are about to run, rules of three and more axes included."""
    found = _Found(case_file, file, frozenset())
    first = _first(case_file)
    for point in drawn:
        found.add({**first, **point}, {})
    return found.faults()


def _includes(case_file: CaseFile, file: str, broken: frozenset[str]) -> list[Fault]:
    faults = []
    for rule in case_file.include:
        found = _Found(case_file, file, broken)
        found.add({**_first(case_file), **rule.entries}, dict.fromkeys(rule.entries, rule.line), touching=frozenset(rule.entries))
        faults += [replace(fault, line=rule.line, key=rule.key, got=f"{fault.key}: {fault.got}") for fault in found.faults()]
    return faults


def _threshold(case_file: CaseFile, file: str, broken: frozenset[str]) -> list[Fault]:
    """The two ends of a threshold, with `at` and every value of the axes that `at` leaves open."""
    block = case_file.threshold
    if block is None:
        return []
    found = _Found(case_file, file, broken)
    held = {block.axis, *block.at}
    closed = frozenset(case_file.base()) - frozenset(case_file.swept) | held
    lines = dict.fromkeys(held, block.line)
    for entry in [{}, *(entry for factor in case_file.factors for entry in _open(factor, held))]:
        for end in (block.low, block.high):
            params = {**_first(case_file), **entry, **block.at, block.axis: end}
            found.add(params, lines, within=closed | frozenset(entry), touching=frozenset(held))
    return [replace(fault, line=block.line, key="threshold", got=f"{fault.key}: {fault.got}") for fault in found.faults()]


def _open(factor: Factor, held: set[str]) -> Iterator[dict[str, Any]]:
    for entry in factor.values:
        yield {name: value for name, value in zip(factor.axes, entry, strict=True) if name not in held}


def _first(case_file: CaseFile) -> dict[str, Any]:
    """Every axis of the op, the swept ones at their first value."""
    return {**case_file.base(), **{axis: case_file.values_of(axis)[0] for axis in case_file.swept}}
