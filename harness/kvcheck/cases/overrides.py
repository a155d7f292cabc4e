"""What options change in a case file: `--set`, `--provider`, `--coverage`, `--seed`, `--repeat`, `--fresh`, `--precision`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kvcheck.agent import specs
from kvcheck.cases import names, schema, values
from kvcheck.cases.errors import CaseFileError, Fault, quote
from kvcheck.cases.model import CaseFile, Factor


@dataclass(frozen=True)
class Overrides:
    """Options that change case files; None and empty leave the files' own.

    Attributes:
        sets: `axis=v1,v2` replacements.
        providers: replace the files' lists.
        coverage: `full`, `pairwise` or `sample:N`.
        seed: of inputs and of samples.
        repeat: calls of the kernel a case.
        fresh: new processes a case is run in.
        precision: the name of a precision model.
    """

    sets: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    coverage: str | None = None
    seed: int | None = None
    repeat: int | None = None
    fresh: int | None = None
    precision: str | None = None


def apply(case_file: CaseFile, options: Overrides) -> CaseFile:
    """The case file under options.

    Raises:
        CaseFileError: everything that is wrong with the options.
    """
    faults: list[Fault] = []
    changes: dict[str, Any] = {}
    for i, provider in enumerate(options.providers):
        faults += names.check(provider, "--provider", None, "")
        if provider in options.providers[:i]:
            faults.append(Fault("--provider", None, "", "each provider once", f"{quote(provider)} again"))
    if options.providers:
        changes["providers"] = tuple(options.providers)
    if options.coverage is not None:
        try:
            changes["coverage"] = schema.read_coverage(options.coverage)
        except ValueError:
            near = specs.nearest(options.coverage, ("full", "pairwise", "sample:100"))
            faults.append(Fault("--coverage", None, "", "full, pairwise or sample:N", quote(options.coverage), near))
    numbers = (
        ("seed", options.seed, 0, schema.MAX_SEED),
        ("repeat", options.repeat, 1, schema.MAX_REPEAT),
        ("fresh", options.fresh, 1, schema.MAX_FRESH),
    )
    for name, value, low, high in numbers:
        if value is not None and not low <= value <= high:
            faults.append(Fault(f"--{name}", None, "", f"a whole number from {low} to {high}", quote(value)))
        elif value is not None:
            changes[name] = value
    if options.precision is not None:
        faults += names.check_precision(options.precision, "--precision", None, "")
        changes["precision"] = options.precision
    try:
        case_file = apply_set(case_file, options.sets)
    except CaseFileError as error:
        faults += error.faults
    if faults:
        raise CaseFileError(faults)
    return replace(case_file, **changes)


def apply_set(case_file: CaseFile, texts: Sequence[str]) -> CaseFile:
    """Replaces axes wherever the file has them: `axes`, `fixed`, `zip`, `inputs`; `exclude` still applies.

    An axis that the file does not name is added. In a zip, as many values as the group has replace the column; other counts
    of values that the column has pick their entries. Points of `include` that name other values of the axis go.

    Args:
        case_file: with sound single values.
        texts: `axis=v1,v2` each; ragged lengths as a case id writes them, `4096/0/1/33`.

    Raises:
        CaseFileError: everything that is wrong with the texts.
    """
    if not texts:
        return case_file
    wanted, faults = _wanted(case_file, texts)
    factors = []
    for factor in case_file.factors:
        touched = [axis for axis in factor.axes if axis in wanted]
        if touched and factor.zipped:
            entries = _rezip(factor, wanted, faults)
            factors.append(Factor(factor.axes, entries, (None,) * len(entries)))
        elif touched:
            factors.append(_factor(touched[0], wanted))
        else:
            factors.append(factor)
    if faults:
        raise CaseFileError(faults)
    fixed = dict(case_file.fixed)
    for axis in wanted:
        if axis in case_file.swept:
            continue
        fixed.pop(axis, None)
        if len(wanted[axis]) == 1:
            fixed[axis] = wanted[axis][0]
        else:
            factors.append(_factor(axis, wanted))
    kept = [rule for rule in case_file.include if all(rule.entries.get(axis, listed[0]) in listed for axis, listed in wanted.items())]
    return replace(
        case_file,
        fixed=fixed,
        factors=tuple(factors),
        include=tuple(kept),
        threshold=_threshold(case_file, wanted),
        places={**case_file.places, **{axis: axis for axis in wanted}},
        lines={**case_file.lines, **dict.fromkeys(wanted)},
        replaced=case_file.replaced | frozenset(wanted),
    )


def _wanted(case_file: CaseFile, texts: Sequence[str]) -> tuple[dict[str, list[Any]], list[Fault]]:
    known = specs.axes(case_file.op)
    wanted: dict[str, list[Any]] = {}
    faults = []

    def fault(key: str, expected: str, got: str, near: str | None = None) -> None:
        faults.append(Fault("--set", None, key, expected, got, near))

    for text in texts:
        name, equals, listed = text.partition("=")
        name = name.strip()
        if not equals or not listed.strip():
            fault("", "axis=v1,v2", quote(text), f"{name}=..." if name in known else None)
        elif name not in known:
            fault("", f"an axis of {case_file.op}: {', '.join(known)}", quote(name), specs.nearest(name, known))
        elif name in wanted:
            fault(name, "each axis once", f"{quote(text)} again")
        else:
            wanted[name] = []
            spelled: set[str] = set()
            for part in listed.split(","):
                value = values.parse(known[name], part)
                problem = specs.check_value(known[name], value)
                if problem:
                    fault(name, problem.expected, quote(part if isinstance(value, str) else value), problem.nearest)
                elif values.spell(value) in spelled:
                    fault(name, "each value once", f"{quote(part)} again")
                else:
                    wanted[name].append(value)
                spelled.add(values.spell(value))
    return wanted, faults


def _factor(axis: str, wanted: dict[str, list[Any]]) -> Factor:
    return Factor((axis,), tuple((value,) for value in wanted[axis]), (None,) * len(wanted[axis]))


def _rezip(factor: Factor, wanted: dict[str, list[Any]], faults: list[Fault]) -> tuple[tuple[Any, ...], ...]:
    columns = {axis: wanted.get(axis) or [entry[i] for entry in factor.values] for i, axis in enumerate(factor.axes)}
    if len({len(column) for column in columns.values()}) == 1:
        return tuple(zip(*columns.values(), strict=True))
    kept = tuple(
        entry for entry in factor.values if all(value in wanted.get(axis, [value]) for axis, value in zip(factor.axes, entry, strict=True))
    )
    for i, axis in enumerate(factor.axes):
        there = [entry[i] for entry in factor.values]
        missing = [value for value in wanted.get(axis, []) if value not in there]
        if missing or not kept:
            others = ", ".join(other for other in factor.axes if other != axis)
            expected = f"{len(there)} values, or some of those that are zipped with {others}: {', '.join(map(values.spell, there))}"
            faults.append(Fault("--set", None, axis, expected, ", ".join(map(values.spell, wanted.get(axis, there)))))
            break
    return kept


def _threshold(case_file: CaseFile, wanted: dict[str, list[Any]]) -> Any:
    """The threshold block: replaced axes leave `at` or are settled there; the range ends where a replaced limit does."""
    block = case_file.threshold
    if block is None:
        return None
    at = {axis: value for axis, value in block.at.items() if axis not in wanted}
    at.update({axis: listed[0] for axis, listed in wanted.items() if len(listed) == 1 and axis != block.axis})
    high = block.high
    for rule in specs.load("ops", case_file.op).data.get("constraints", ()):
        if rule["rule"] == "le" and rule["axis"] == block.axis and rule["other"] in wanted:
            high = min([high, *(value for value in wanted[rule["other"]] if value is not None)])
    return replace(block, at=at, high=high) if high > block.low else None
