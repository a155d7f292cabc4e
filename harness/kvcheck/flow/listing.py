"""What `kvcheck list` prints: ops, providers, references, cases and faults, each with file and line."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvcheck.agent import specs
from kvcheck.flow.options import UsageError

FORMATS = ("table", "json")


def check_format(name: str) -> str:
    """The format, when it is one.

    Raises:
        UsageError: with the nearest name.
    """
    if name not in FORMATS:
        raise UsageError(f"--format: expected table or json, got {name!r}; nearest: {specs.nearest(name, FORMATS)}")
    return name


def rows(what: str) -> list[dict[str, Any]]:
    """One dict an entry: name, place (file:line), and what it is.

    Raises:
        UsageError: no such list.
    """
    if what not in LISTS:
        raise UsageError(f"list: expected {', '.join(LISTS)}, got {what!r}; nearest: {specs.nearest(what, LISTS)}")
    return LISTS[what]()


def text(rows: list[dict[str, Any]]) -> str:
    """The same for people: name and place, then the other facts indented."""
    blocks = []
    for row in rows:
        lines = [f"{row['name']}  ({row['place']})"]
        for key, value in row.items():
            if key not in ("name", "place") and value not in (None, "", [], {}):
                lines += _lines(key, value)
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) if blocks else "none"


def _lines(key: str, value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"  {key}:"] + [f"    {name}: {entry}" for name, entry in value.items()]
    if isinstance(value, list):
        return [f"  {key}: {', '.join(map(str, value))}"]
    if isinstance(value, str) and "\n" in value:
        return [f"  {line}".rstrip() for line in value.splitlines()]
    return [f"  {key}: {value}"]


def _ops() -> list[dict[str, Any]]:
    found = []
    for name in specs.names("ops"):
        spec = specs.load("ops", name)
        known = specs.axes(name)
        axes = {axis.name: _axis(axis) for axis in (*known.values(), *known.unlisted.values())}
        entry = {"name": name, "place": _place(spec), "summary": spec.data["summary"], "stages": spec.data.get("stages")}
        found.append({**entry, "function": _docstring(spec), "axes": axes})
    return found


def _axis(axis: specs.Axis) -> str:
    default = "null" if axis.default is None else axis.default
    return f"{axis.doc}{f' ({axis.unit})' if axis.unit else ''}; {axis.expected()}; default {default}"


def _docstring(spec: specs.Spec) -> str:
    tree = ast.parse(Path(spec.file).read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in ("make_inputs", "stages"):
            return ast.get_docstring(node) or ""
    return ""


def _providers() -> list[dict[str, Any]]:
    found = []
    for name in specs.names("providers"):
        spec = specs.load("providers", name)
        data = spec.data
        entry = {"name": name, "place": _place(spec), "summary": data.get("summary"), "ops": data["ops"]}
        found.append({**entry, "variants": data.get("variants", {}), "origin": data.get("origin"), "hardware": data.get("hardware")})
    return found


def _faults() -> list[dict[str, Any]]:
    found = []
    for name in specs.names("faults"):
        spec = specs.load("faults", name)
        form = {"int": f"{name}=V", "range": f"{name}=A-B"}.get(spec.data["value"], name)
        found.append(
            {"name": form, "place": _place(spec), "sentence": spec.data["sentence"], "base": spec.data["base"], "ops": spec.data["ops"]}
        )
    return found


def _relations() -> list[dict[str, Any]]:
    found = []
    for name in specs.names("relations"):
        spec = specs.load("relations", name)
        ops = [op for op in specs.names("ops") if name in specs.relations(op)]
        found.append({"name": name, "place": _place(spec), "doc": spec.data["doc"], "demand": spec.data["demand"], "ops": ops})
    return found


def _references() -> list[dict[str, Any]]:
    """Found as files: the front imports no torch."""
    import importlib.util

    package = importlib.util.find_spec("kvcheck_references")
    found = []
    for folder in package.submodule_search_locations or [] if package else []:
        for file in sorted(Path(folder).glob("[a-z]*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            line = next((node.lineno for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == file.stem), 1)
            found.append({"name": file.stem, "place": f"{file}:{line}", "summary": (ast.get_docstring(tree) or "").split("\n")[0]})
    return found


def _cases() -> list[dict[str, Any]]:
    from kvcheck.cases.listing import entries

    found = []
    for entry in entries():
        facts = {"case ids": f"{entry.name}[...]", "op": entry.op, "points": entry.points, "providers": list(entry.providers)}
        found.append({"name": entry.ref, "place": f"{entry.path}:{entry.line}", "why": entry.why, **facts, "fault": entry.fault})
    return found


def _place(spec: specs.Spec) -> str:
    return f"{spec.file}:{spec.line}"


LISTS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "ops": _ops,
    "providers": _providers,
    "references": _references,
    "cases": _cases,
    "faults": _faults,
    "relations": _relations,
}
