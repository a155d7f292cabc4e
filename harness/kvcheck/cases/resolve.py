"""Turns one YAML document into a CaseFile: every name and every single value held against the op's SPEC.

Combinations of values are `combos`' part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kvcheck.agent import specs
from kvcheck.agent.axes import ENV
from kvcheck.cases import names, schema, values
from kvcheck.cases.errors import Fault, quote
from kvcheck.cases.model import CaseFile, Factor, Rule, Threshold
from kvcheck.cases.text import Document, dotted

EVERY = "all"
ORDERED = ("int", "lengths")
"""Types of axes along which a threshold can be looked for."""


def resolve(document: Document, ref: str, path: str) -> tuple[CaseFile | None, list[Fault], frozenset[str]]:
    """The case file (None when it names no op), its faults, and the axes whose values are not to be trusted."""
    shaped, faults = schema.shape(document)
    for i, provider in enumerate(shaped.providers):
        if provider == "" and document.data["providers"][i] != "":
            continue  # not text: the shape's fault
        line, key = document.line_of("providers", i), f"providers[{i}]"
        faults += names.check(provider, document.file, line, key)
        if provider in shaped.providers[:i]:
            first = document.line_of("providers", shaped.providers.index(provider))
            faults.append(Fault(document.file, line, key, f"each provider once (first on line {first})", quote(provider)))
    if shaped.precision is not None:
        faults += names.check_precision(shaped.precision, document.file, document.line_of("precision"), "precision")
    known = specs.names("ops")
    if shaped.op not in known:
        if isinstance(document.data.get("op"), str):
            near = specs.nearest(shaped.op, known)
            faults.append(Fault(document.file, document.line_of("op"), "op", "one of " + ", ".join(known), quote(shaped.op), near))
        return None, faults, frozenset()
    if shaped.sample and "coverage" in document.data:
        line, first = document.line_of("sample"), document.line_of("coverage")
        faults.append(Fault(document.file, line, "sample", f"coverage or sample, not both (coverage on line {first})", "both"))
    reader = _Reader(document, shaped.op, faults)
    reader.sections(shaped)
    case_file = CaseFile(
        ref=ref,
        path=path,
        line=document.line,
        name=shaped.name,
        op=shaped.op,
        why=" ".join(shaped.why.split()),
        providers=tuple(shaped.providers),
        fixed=reader.fixed,
        factors=tuple(reader.factors),
        include=tuple(reader.rules("include", shaped.include)),
        exclude=tuple(reader.rules("exclude", shaped.exclude)),
        coverage=("sample", shaped.sample) if shaped.sample else shaped.coverage,
        threshold=reader.threshold(shaped.threshold),
        run_unsupported=shaped.run_unsupported,
        precision=shaped.precision,
        seed=shaped.seed,
        repeat=shaped.repeat,
        fresh=shaped.fresh,
        relations=reader.relations(shaped.relations),
        places=reader.places,
        lines=reader.lines,
    )
    return case_file, faults, frozenset(reader.broken | (_named(document.data) - set(reader.places)))


def _named(data: dict[str, Any]) -> set[str]:
    """Every axis that a section of the raw file names, sound or not."""
    zipped = data.get("zip")
    sections = [data.get(key) for key in ("axes", "fixed", "inputs")] + (zipped if isinstance(zipped, list) else [zipped])
    return {axis for section in sections if isinstance(section, dict) for axis in section}


@dataclass
class _Reader:
    """Collects the sections of one document."""

    document: Document
    op: str
    faults: list[Fault]
    fixed: dict[str, Any] = field(default_factory=dict)
    factors: list[Factor] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int | None] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.axes = specs.axes(self.op)

    def sections(self, shaped: schema.CaseFileShape) -> None:
        """Reads fixed, inputs, axes and zip in the order in which the file has them."""
        for key in self.document.data:
            if key in ("fixed", "inputs"):
                for axis, value in getattr(shaped, key).items():
                    if self.place(axis, (key, axis)) and self.value(axis, value, (key, axis)):
                        self.fixed[axis] = values.coerce(self.axes[axis], value)
            elif key == "axes":
                for axis, listed in shaped.axes.items():
                    if self.place(axis, (key, axis)):
                        self.swept(axis, listed)
            elif key == "env":
                self.variables(shaped.env)
            elif key == "zip":
                grouped = isinstance(self.document.data["zip"], list)
                for i, group in enumerate(shaped.zip):
                    if group or not grouped or self.document.data["zip"][i] == {}:
                        self.zipped(group, ("zip", i) if grouped else ("zip",))

    def variables(self, section: dict[str, Any]) -> None:
        """Reads `env`: a list of values is swept, one value is fixed; the axis is called `env.NAME`."""
        for name, value in section.items():
            axis, path = f"env.{name}", ("env", name)
            if not ENV.fullmatch(axis):
                self.fault(path, "the name of a variable: letters, digits and _", quote(name))
            elif self.place(axis, path):
                if isinstance(value, list):
                    self.swept(axis, value, path)
                elif self.value(axis, value, path):
                    self.fixed[axis] = values.coerce(self.axes[axis], value)

    def fault(self, path: tuple[Any, ...], expected: str, got: str, near: str | None = None, why: str | None = None) -> None:
        self.faults.append(Fault(self.document.file, self.document.line_of(*path), dotted(path), expected, got, near, why))

    def known(self, axis: str, path: tuple[Any, ...]) -> bool:
        if axis in self.axes:
            return True
        self.fault(path, f"an axis of {self.op}: {', '.join(self.axes)}", quote(axis), specs.nearest(axis, self.axes))
        return False

    def place(self, axis: str, path: tuple[Any, ...]) -> bool:
        """Notes where the file has an axis; false when the op has no such axis or another section has it already."""
        if not self.known(axis, path):
            return False
        line = self.document.line_of(*path)
        if axis in self.places:
            first = f"first in {self.places[axis]} on line {self.lines[axis]}"
            self.fault(path, f"each axis in one place ({first})", f"{axis} again on line {line}")
            self.broken.add(axis)
            return False
        self.places[axis], self.lines[axis] = dotted(path), line
        return True

    def value(self, axis: str, value: Any, path: tuple[Any, ...]) -> bool:
        """Whether one value may stand on an axis."""
        spec = self.axes[axis]
        problem = specs.check_value(spec, values.coerce(spec, value))
        if problem is None:
            return True
        self.broken.add(axis)
        one = isinstance(value, list) and spec.type != "lengths" and path[0] in ("fixed", "inputs", "include", "threshold")
        self.fault(path, problem.expected, quote(value), problem.nearest, "one value here; lists belong under axes" if one else None)
        return False

    def swept(self, axis: str, listed: list[Any], where: tuple[Any, ...] = ()) -> None:
        where = where or ("axes", axis)
        if not listed:
            self.fault(where, "at least one value: the product is empty", "an empty list")
            self.broken.add(axis)
            return
        spec, entries, lines, seen = self.axes[axis], [], [], {}
        for i, raw in enumerate(listed):
            path = (*where, i)
            if not self.value(axis, raw, path):
                continue
            value, line = values.coerce(spec, raw), self.document.line_of(*path)
            spelled = values.spell(value)
            if spelled in seen:
                self.fault(path, f"each value once (first on line {seen[spelled]})", f"{spelled} again on line {line}")
                continue
            seen[spelled] = line
            entries.append((value,))
            lines.append(line)
        if entries:
            self.factors.append(Factor((axis,), tuple(entries), tuple(lines)))

    def zipped(self, group: dict[str, list[Any]], path: tuple[Any, ...]) -> None:
        placed = [axis for axis in group if self.place(axis, (*path, axis))]
        lengths = {axis: len(group[axis]) for axis in placed}
        sound = [self.value(axis, raw, (*path, axis, i)) for axis in placed for i, raw in enumerate(group[axis])]
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{axis} has {length} (line {self.lines[axis]})" for axis, length in lengths.items())
            self.fault(path, "zipped lists of equal length", shown)
        elif not group or any(length == 0 for length in lengths.values()):
            self.fault(path, "at least one value an axis: the product is empty", "an empty list" if group else "no axis")
        elif len(placed) == len(group) and all(sound):
            columns = [[values.coerce(self.axes[axis], raw) for raw in group[axis]] for axis in placed]
            lines = tuple(self.document.line_of(*path, placed[0], i) for i in range(len(columns[0])))
            entries = tuple(zip(*columns, strict=True))
            spelled = [tuple(map(values.spell, entry)) for entry in entries]
            again = next((i for i, entry in enumerate(spelled) if entry in spelled[:i]), None)
            if again is None:
                self.factors.append(Factor(tuple(placed), entries, lines))
                return
            self.fault(
                (*path, placed[0], again), f"each zipped point once (first as entry {spelled.index(spelled[again]) + 1})", "it again"
            )
        self.broken.update(axis for axis in group if axis in self.axes)

    def rules(self, section: str, listed: list[dict[str, Any]]) -> list[Rule]:
        """The points of `include` or the rules of `exclude`."""
        found = []
        for i, entry in enumerate(listed):
            path, sound, read = (section, i), True, {}
            if not entry:
                if self.document.data[section][i] == {}:
                    self.fault(path, "axis: value", "an empty entry")
                continue
            for axis, raw in entry.items():
                many = section == "exclude" and isinstance(raw, list)
                if not self.known(axis, (*path, axis)):
                    sound = False
                    continue
                items = raw if many else [raw]
                before = set(self.broken)
                each = [self.value(axis, item, (*path, axis, j) if many else (*path, axis)) for j, item in enumerate(items)]
                self.broken = before  # a wrong rule says nothing about the sweep itself
                if many and not items:
                    self.fault((*path, axis), "at least one value", "an empty list")
                sound = sound and all(each) and bool(items)
                read[axis] = tuple(values.coerce(self.axes[axis], item) for item in items)
            if sound:
                read = read if section == "exclude" else {axis: value[0] for axis, value in read.items()}
                found.append(Rule(read, self.document.line_of(*path), dotted(path)))
        return found

    def relations(self, listed: list[str]) -> tuple[str, ...]:
        """The relations that are named, in the order in which they are checked; `all` is every one that the op has."""
        known = specs.relations(self.op)
        for i, name in enumerate(listed):
            if name not in (*known, EVERY) and (name or self.document.data["relations"][i] == ""):
                path = ("relations", i) if isinstance(self.document.data["relations"], list) else ("relations",)
                self.fault(
                    path, f"{EVERY}, or relations of {self.op}: {', '.join(known)}", quote(name), specs.nearest(name, (*known, EVERY))
                )
        return known if EVERY in listed else tuple(name for name in known if name in listed)

    def threshold(self, shaped: schema.ThresholdShape | None) -> Threshold | None:
        """The threshold block, when it is sound."""
        if shaped is None or not self.known(shaped.axis, ("threshold", "axis")):
            return None
        axis = self.axes[shaped.axis]
        sound = True
        if axis.type not in ORDERED:
            ordered = ", ".join(name for name, other in self.axes.items() if other.type in ORDERED)
            self.fault(("threshold", "axis"), f"an ordered axis: {ordered}", f"{axis.name}, which is a {axis.type}")
        before = set(self.broken)
        at = {}
        for name, raw in shaped.at.items():
            path = ("threshold", "at", name)
            if name == axis.name:
                self.fault(path, "values of the other axes", f"{name}, which the threshold walks along")
                sound = False
            elif not self.known(name, path) or not self.value(name, raw, path):
                sound = False
            else:
                at[name] = values.coerce(self.axes[name], raw)
        ends = [values.coerce(axis, raw) for raw in shaped.range]
        whole = axis.type in ORDERED
        for i, end in enumerate(ends) if whole else ():
            if isinstance(end, list) or end is None:
                self.fault(("threshold", "range", i), "a whole number", quote(end))
                whole = False
            else:
                whole = self.value(axis.name, shaped.range[i], ("threshold", "range", i)) and whole
        self.broken = before
        if whole and not ends[1] > ends[0]:
            self.fault(("threshold", "range"), "[lowest, highest], lowest below highest", quote(shaped.range))
            whole = False
        return Threshold(axis.name, ends[0], ends[1], at, self.document.line_of("threshold")) if sound and whole else None
