"""Reads the literal SPECs that ops, inputs, faults and providers open with, and holds values against them.

No module is imported: `ast` reads the literal, so the front can plan without torch, and file and line come for free.
"""

from __future__ import annotations

import ast
import difflib
import math
import pkgutil
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from kvcheck.agent.axes import COMMON, Axes, Axis

KINDS = ("ops", "inputs", "faults", "providers", "relations")


@dataclass(frozen=True)
class Spec:
    """A literal SPEC and where it stands."""

    kind: str
    name: str
    data: dict[str, Any]
    file: str
    line: int


@dataclass(frozen=True)
class Problem:
    """Why a value or a combination of values cannot be: one line of an error message."""

    axis: str
    expected: str
    got: str
    nearest: str | None = None
    why: str | None = None
    axes: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{self.axis}: expected {self.expected}, got {self.got}"
        if self.why:
            text += f" ({self.why})"
        return text + (f"; nearest: {self.nearest}" if self.nearest else "")


def nearest(word: Any, words: Any) -> str | None:
    """The name that a mistyped word most likely meant, or None."""
    found = difflib.get_close_matches(str(word), [str(w) for w in words], n=1, cutoff=0.5)
    return found[0] if found else None


@lru_cache(maxsize=None)
def names(kind: str) -> tuple[str, ...]:
    """The names of one kind, sorted; files that begin with `_` are helpers and not listed."""
    package = _package(kind)
    return tuple(sorted(m.name for m in pkgutil.iter_modules(package.__path__) if not m.name.startswith("_")))


@lru_cache(maxsize=None)
def load(kind: str, name: str) -> Spec:
    """The SPEC of one file.

    Raises:
        KeyError: no such file.
        ValueError: the file has no literal SPEC.
    """
    if name not in names(kind):
        raise KeyError(f"no {kind[:-1]} named {name!r}")
    package = _package(kind)
    source = pkgutil.get_data(package.__name__, f"{name}.py")
    file = str(Path(list(package.__path__)[0]) / f"{name}.py")
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "SPEC" for t in node.targets):
            return Spec(kind, name, ast.literal_eval(node.value), file, node.lineno)
    raise ValueError(f"{file} has no literal SPEC")


@lru_cache(maxsize=None)
def axes(op: str) -> Axes:
    """The axes of an op by name, choices that live with the inputs merged in.

    Raises:
        KeyError: no such op.
    """
    resolved = Axes()
    for name, entry in load("inputs", "reduced").data["axes"].items():
        if op in entry["ops"]:
            resolved.unlisted[name] = Axis(name=name, **{key: value for key, value in entry.items() if key != "ops"})
    for name, entry in {**load("ops", op).data["axes"], **COMMON}.items():
        entry = dict(entry)
        source = entry.pop("choices_from", None)
        if source:
            every = load("inputs", source).data["choices"]
            entry["choices"] = {k: v for k, v in every.items() if op in v.get("ops", [op])}
        resolved[name] = Axis(name=name, **entry)
    return resolved


def relations(op: str) -> tuple[str, ...]:
    """The relations that an op has, in the order in which they are checked; of a pipeline, those of its stages."""
    data = load("ops", op).data
    found = data["relations"] if "relations" in data else [name for stage in data["stages"] for name in relations(stage)]
    return tuple(dict.fromkeys(found))


def check_value(axis: Axis, value: Any) -> Problem | None:
    """Whether one value can stand on one axis, whatever the others are."""
    if value is None:
        return None if axis.optional else _problem(axis, value)
    if axis.type == "choice":
        known = isinstance(value, str) and value in axis.choices
        return None if known else _problem(axis, value, nearest(value, axis.choices))
    if axis.type == "env":
        return None if isinstance(value, str) and "\0" not in value else _problem(axis, value)
    if axis.type == "bool":
        return None if isinstance(value, bool) else _problem(axis, value)
    if axis.type == "lengths" and isinstance(value, (list, tuple)):
        return _check_lengths(axis, value)
    if axis.type == "positions":
        return None if _ascending(value) else _problem(axis, value)
    return None if _number_fits(axis, value) else _problem(axis, value)


def check_params(op: str, params: dict[str, Any]) -> list[Problem]:
    """Every reason why a fully resolved case cannot be; empty when it can."""
    known = axes(op)
    problems = [Problem(n, f"an axis of {op}", repr(n), nearest(n, known)) for n in params if n not in known]
    problems += [Problem(n, "a value", "none given") for n in known if n not in params and n not in COMMON]
    problems += [p for n, v in params.items() if n in known and (p := check_value(known[n], v))]
    if problems:
        return problems
    return _check_combination(op, known, params)


def longest(value: Any) -> int:
    """The largest length in a `lengths` value."""
    if isinstance(value, (list, tuple)):
        return max((longest(item) for item in value), default=0)
    return int(value)


def _check_combination(op: str, known: dict[str, Axis], params: dict[str, Any]) -> list[Problem]:
    problems = []
    for name, axis in known.items():
        value = params[name]
        if axis.type == "lengths" and isinstance(value, (list, tuple)):
            problems += _check_ragged(name, value, params)
        for other, least in axis.choices.get(value, {}).get("needs", {}).items() if axis.type == "choice" else ():
            if other in params and params[other] is not None and longest(params[other]) < least:
                why = f"{name}: {value} needs {other} of at least {least}"
                problems.append(Problem(other, f"at least {least}", repr(params[other]), None, why, (name, other)))
    for rule in load("ops", op).data.get("constraints", ()):
        if rule["rule"] == "pages":
            problems += _check_pages(rule, params)
            continue
        left, right = params[rule["axis"]], params[rule["other"]]
        if left is not None and right is not None and longest(left) > longest(right):
            names_ = (rule["axis"], rule["other"])
            problems.append(Problem(names_[0], f"at most {names_[1]} ({right})", repr(left), None, rule["why"], names_))
    return problems


def _check_pages(rule: dict[str, Any], params: dict[str, Any]) -> list[Problem]:
    """The pool holds the pages of all requests; of requests that share a prefix, at least those of the longest."""
    pool, lengths, size = params[rule["axis"]], params[rule["other"]], params["block_size"]
    if pool is None:
        return []
    ragged = isinstance(lengths, (list, tuple))
    pages = [-(-longest(length) // size) for length in (lengths if ragged else [lengths])]
    need = max(pages) if params["block_table"] == "shared_prefix" else sum(pages) * (1 if ragged else params["batch"])
    if pool >= need:
        return []
    axes_ = (rule["axis"], rule["other"], "batch", "block_size")
    return [Problem(rule["axis"], f"at least {need} pages", repr(pool), str(need), rule["why"], axes_)]


def _check_ragged(name: str, value: Any, params: dict[str, Any]) -> list[Problem]:
    batch, next_n = params.get("batch", len(value)), params.get("next_n", 1)
    problems = []
    if len(value) != batch:
        problems.append(Problem(name, f"a list of {batch}, one entry a request", f"{len(value)} entries", None, None, (name, "batch")))
    wrong = [v for v in value if isinstance(v, (list, tuple)) and len(v) != next_n]
    if wrong:
        problems.append(Problem(name, f"a list of {next_n}, one length a query token", repr(list(wrong[0])), None, None, (name, "next_n")))
    if len({isinstance(v, (list, tuple)) for v in value}) > 1:
        problems.append(Problem(name, "either a length a request or a list of next_n lengths each", repr(list(value))))
    return problems


def _check_lengths(axis: Axis, value: Any) -> Problem | None:
    if not value:
        return _problem(axis, value)
    for item in value:
        inner = item if isinstance(item, (list, tuple)) else [item]
        if not inner or not all(_number_fits(axis, n) for n in inner):
            return _problem(axis, item)
    return None


def _ascending(value: Any) -> bool:
    whole = isinstance(value, (list, tuple)) and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in value)
    return whole and all(a < b for a, b in zip(value, value[1:], strict=False))


def _number_fits(axis: Axis, value: Any) -> bool:
    kinds = (int, float) if axis.type == "number" else (int,)
    if isinstance(value, bool) or not isinstance(value, kinds) or not math.isfinite(value):
        return False
    low, high = axis.min, axis.max
    if (low is not None and value < low) or (high is not None and value > high):
        return False
    return not axis.multiple_of or value % axis.multiple_of == 0


def _problem(axis: Axis, value: Any, near: str | None = None) -> Problem:
    if near is None and axis.type in ("int", "lengths") and isinstance(value, (int, float)) and not isinstance(value, bool):
        near = _nearest_number(axis, value)
    return Problem(axis.name, axis.expected(), repr(value), near)


def _nearest_number(axis: Axis, value: float) -> str | None:
    if not math.isfinite(value):
        return None
    step = axis.multiple_of or 1
    number = round(value / step) * step
    if axis.min is not None:
        number = max(number, math.ceil(axis.min / step) * step)
    if axis.max is not None:
        number = min(number, math.floor(axis.max / step) * step)
    return str(int(number))


def _package(kind: str) -> Any:
    if kind not in KINDS:
        raise KeyError(kind)
    return __import__(f"kvcheck.agent.{kind}", fromlist=["__path__"])
