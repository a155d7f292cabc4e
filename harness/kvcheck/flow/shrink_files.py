"""What a shrunk case leaves: a case file that holds it beside its twin, and the same as JSON."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import yaml

from kvcheck.cases.model import Case
from kvcheck.cases.values import spell
from kvcheck.flow.options import Options
from kvcheck.flow.shrink import Shrunk, told
from kvcheck.report.words.clean import line
from kvcheck.report.words.masking import masked

SCHEMA = "kvcheck.shrunk/1"
KEPT = ("id", "verdict", "output", "check", "message", "first_bad", "bad_count", "element_count", "metrics", "diagnosis")
"""Keys of a row that a shrunk case carries inside another row."""


def content(found: Shrunk, file: Path, options: Options) -> dict[str, Any]:
    """What was found, as shrunk.json holds it.

    Args:
        found: of the search.
        file: case file that holds the smallest case.
        options: where and how the cases ran.
    """
    case, (smallest, row) = found.case, found.smallest
    again = _command(found, smallest, file, options)
    return {
        "schema": SCHEMA,
        "of": {"case": case.id, "case_file": case.case_file, "op": case.op, "provider": case.provider, "params": case.params},
        "identity": {"verdict": row["verdict"], "output": row.get("output"), "check": row.get("check")},
        "failure": told(row),
        "request": {"seed": case.seed, **case.asked},
        "device": options.device,
        "python": options.python,
        "case_file": str(file),
        "smallest": {"params": smallest.params, "row": {**row, "repro": again}, "command": again},
        "twin": None
        if found.twin is None
        else {
            "params": found.twin[0].params,
            "row": found.twin[1],
            "command": _command(found, found.twin[0], file, options),
            "axes": list(found.axes),
        },
        "changed": [list(each) for each in found.changed],
        "evaluations": found.evaluations,
        "steps": found.steps,
        "seconds": found.seconds,
        "stopped_by": found.stopped_by,
        "note": found.note,
    }


def brief(whole: dict[str, Any]) -> dict[str, Any]:
    """The part of it that a row of run.json carries: its rows cut down to what they say of the failure."""
    sides = {name: _cut(whole[name]) for name in ("smallest", "twin")}
    return {name: sides.get(name, value) for name, value in whole.items() if name not in ("schema", "of", "device", "python")}


def write(found: Shrunk, whole: dict[str, Any], file: Path, mask: bool = True) -> None:
    """Writes the case file, and the same as JSON beside it, each whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    shown = masked(whole) if mask else whole
    for path, text in ((file, case_file(found, mask)), (file.with_suffix(".json"), json.dumps(shown, indent=1, allow_nan=False) + "\n")):
        part = path.with_suffix(path.suffix + ".part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)


def base(case: Case) -> str:
    """What a case is called, as part of a name."""
    return (re.sub(r"[^A-Za-z0-9_.-]", "_", case.id.partition("[")[0]).lstrip("_.-") or case.op)[:70]


def case_file(found: Shrunk, mask: bool = True) -> str:
    """The case file: the axes on which the twin differs have two values, the smallest case's first; all others are fixed."""
    case, params = found.case, found.smallest[0].params
    twin = found.twin[0].params if found.twin else {}
    pairs = {axis: [params.get(axis), twin.get(axis)] for axis in found.axes}
    others = {axis: value for axis, value in params.items() if axis not in found.axes}
    data = {
        "schema": 1,
        "name": f"{base(case)}_shrunk",
        "op": case.op,
        "why": "the smallest case that fails so" + (", and the closest one that passes" if found.twin else ""),
        "providers": [case.provider],
        "fixed": {axis: value for axis, value in others.items() if not axis.startswith("env.")},
        "zip" if len(pairs) > 1 else "axes": pairs,
        "env": {axis.removeprefix("env."): value for axis, value in others.items() if axis.startswith("env.")},
        "seed": case.seed,
        **case.asked,
    }
    kept = {key: value for key, value in data.items() if value not in ({}, None, [])}
    head = f"# Written by kvcheck shrink: the smallest form of {line(case.id, 300)}\n# that still ends in {told(found.smallest[1])}.\n"
    return head + yaml.safe_dump(masked(kept) if mask else kept, sort_keys=False, default_flow_style=None, width=130, allow_unicode=True)


def _command(found: Shrunk, case: Case, file: Path, options: Options) -> str:
    """The command that runs one of the two cases of the file."""
    sets = [word for axis in found.axes for word in ("--set", f"{axis}={spell(case.params.get(axis))}")]
    plain = dataclasses.replace(options, sets=(), seed=None, repeat=None, fresh=None, precision=None)  # those are in the file
    return plain.again(str(file), case.provider, sets)


def _cut(side: dict[str, Any] | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {**side, "row": {key: side["row"][key] for key in KEPT if key in side["row"]}}
