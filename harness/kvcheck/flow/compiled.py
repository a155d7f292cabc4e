"""From cases that agents compiled to one row a kernel and target, and what differs between two such lists: pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kvcheck.agent.protocol import failed

FIGURES = (
    *("vgprs", "agprs", "sgprs", "vgpr_spills", "sgpr_spills", "scratch_bytes", "lds_bytes", "occupancy"),
    *("code_bytes", "instructions", "matrix"),
)
COMPARED = tuple(name for name in FIGURES if name != "instructions")
SPECIALISATION = ("constants", "types", "divisible_by_16", "within_2_gib", "options")
BLANK = {
    **{"provider": None, "target": None, "kernel": None, "file": None, "line": None, "key": None, "verdict": None, "stage": None},
    **{"message": "", "error_file": None, "error_line": None, "compile_s": None},
    **dict.fromkeys(FIGURES),
    **dict.fromkeys(SPECIALISATION),
}
LAST_WORD = re.compile(r"^compiling (\S+) \((.+):(\d+)\) for \S+$", re.M)
"""What an agent prints before it compiles a kernel (agent/compile.py)."""

ERROR = re.compile(r"^.*?\b((?:LLVM ERROR|fatal error|error)\b:? .*)$", re.M | re.I)

Launch = tuple[str, str, str, int]
"""Target, case, kernel and how many of that kernel the case had launched before."""


@dataclass
class Kernels:
    """Every kernel that cases led to.

    Attributes:
        rows: one a provider, target and specialisation, each with the `cases` that led to it; and one for each reason that cases
            led to none.
        launches: the row behind every launch.
        stopped: target and case of every case whose launch code was not finished.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    launches: dict[Launch, dict[str, Any]] = field(default_factory=dict)
    stopped: set[tuple[str, str]] = field(default_factory=set)


def kernels(answers: Iterable[tuple[str, dict[str, Any]]]) -> Kernels:
    """Collects kernels.

    Args:
        answers: target and the case's row, which has `kernels` where the agent answered.
    """
    found, known = Kernels(), {}
    for target, case in answers:
        entries = list(case.get("kernels") or [])
        if case["verdict"] != "pass":
            found.stopped.add((target, case["id"]))
            if not any(entry["verdict"] == case["verdict"] for entry in entries):
                entries.append(_without_kernel(case, target))
        counted: dict[str, int] = {}
        for entry in entries:
            identity = (case["provider"], target, entry.get("key") or (entry["kernel"], entry["verdict"], entry["message"]))
            row = known.get(identity)
            if row is None:
                row = known[identity] = {**BLANK, **entry, "provider": case["provider"], "target": target, "cases": []}
                found.rows.append(row)
            elif failed(entry["verdict"]) and not failed(row["verdict"]):
                row.update(verdict=entry["verdict"], message=entry["message"])
            if case["id"] not in row["cases"]:
                row["cases"].append(case["id"])
            if entry["kernel"] and entry["verdict"] != "unsupported":  # what the provider passes over is not launched
                turn = counted[entry["kernel"]] = counted.get(entry["kernel"], -1) + 1
                found.launches[(target, case["id"], entry["kernel"], turn)] = row
    return found


def differences(new: Kernels, old: Kernels) -> list[dict[str, Any]]:
    """What changed from one side to the other, launch by launch, each kind of change once with the cases that show it.

    Returns:
        entries: kind (newly_fails, compiles_again, changed, new, gone), target, kernel, file, line, message, changes {figure: [old,
            new]}, specialisation {part: [old, new]}, cases. A kernel that fails on both sides is in none.
    """
    found: dict[Any, dict[str, Any]] = {}
    for launch in sorted({**old.launches, **new.launches}):
        target, case, kernel, _ = launch
        before, after = old.launches.get(launch), new.launches.get(launch)
        missing = new.stopped if after is None else old.stopped
        if (before is None or after is None) and (target, case) in missing:
            continue  # that side did not get so far, which is told of the kernel it stopped at
        entry = _difference(before, after)
        if entry is None:
            continue
        row = after or before or {}
        identity = (target, kernel, entry["kind"], repr(entry))
        place = {"target": target, "kernel": kernel, "file": row["file"], "line": row["line"]}
        found.setdefault(identity, {**entry, **place, "cases": []})["cases"].append(case)
    return sorted(found.values(), key=lambda entry: entry["kind"] != "newly_fails")


def _difference(before: dict[str, Any] | None, after: dict[str, Any] | None) -> dict[str, Any] | None:
    nothing: dict[str, Any] = {"message": "", "changes": {}, "specialisation": {}}
    if before is None or after is None:
        row = after or before or {}
        if failed(row["verdict"]):
            return {"kind": "newly_fails", **nothing, "message": row["message"]} if after else None
        return {"kind": "new" if after else "gone", **nothing}
    if failed(before["verdict"]) or failed(after["verdict"]):
        if failed(before["verdict"]) and failed(after["verdict"]):
            return None
        kind = "newly_fails" if failed(after["verdict"]) else "compiles_again"
        return {"kind": kind, **nothing, "message": (after if kind == "newly_fails" else before)["message"]}
    changes = {name: [before[name], after[name]] for name in COMPARED if before[name] != after[name]}
    one, other = _parts(before), _parts(after)
    parts = {name: [one.get(name), other.get(name)] for name in sorted({**one, **other}) if one.get(name) != other.get(name)}
    return {"kind": "changed", "message": "", "changes": changes, "specialisation": parts} if changes or parts else None


def _parts(row: dict[str, Any]) -> dict[str, Any]:
    named = {name: value for part in ("constants", "types", "options") for name, value in (row[part] or {}).items()}
    return {**named, **{f"{name} % 16": 0 for name in row["divisible_by_16"] or []}}


def _without_kernel(case: dict[str, Any], target: str) -> dict[str, Any]:
    """The row for a case that stopped outside a kernel's compilation; of a compiler that took the process with it, the kernel is known."""
    message = case["message"]
    entry = {**BLANK, "verdict": case["verdict"], "message": message}
    words = LAST_WORD.findall(message)
    if case["verdict"] not in ("crash", "timeout") or not words:
        return entry
    kernel, file, line = words[-1]
    said = ERROR.findall(message.rpartition("compiling ")[2])
    what = f"{said[0] if said else 'no word'} ({message.partition(';')[0]})"
    message = f"{kernel} does not compile for {target}: {what}, at {file}:{line}"
    place = {"kernel": kernel, "file": file, "line": int(line), "error_file": file, "error_line": int(line)}
    return {**entry, **place, "stage": "compile", "message": message}
