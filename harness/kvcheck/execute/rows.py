"""Rows as CONTRACT has them: the agent's part completed, and whole ones for cases whose agent died."""

from __future__ import annotations

import re
from typing import Any

from kvcheck.cases.model import Case
from kvcheck.execute.stderr import harmless
from kvcheck.execute.supervisor import Ended

TIMES = ("kernel_ms", "reference_ms", "judge_ms", "total_ms")
FROM_KERNELS = ("message", "dispatch", "provider_version")
"""Texts that a kernel or its package may have a hand in."""

PROVIDERS_PHASES = frozenset({"load", "compile", "kernel"})
"""Phases in which what goes wrong is the provider's doing."""

TAINTING = re.compile(r"memory|alloc|RecursionError|SystemExit|KeyboardInterrupt|GeneratorExit", re.IGNORECASE)
"""Exceptions after which a process is not what it was: a lost device context, memory that is still held, an end half begun."""


def complete(case: Case, part: dict[str, Any]) -> dict[str, Any]:
    """The whole row of a case.

    Args:
        case: what was asked for.
        part: what is known, over the defaults; keys beyond CONTRACT's are kept.

    Returns:
        row: every key of CONTRACT's `cases` but `repro`, in its order; `premise` is not in it.
    """
    known = {key: value for key, value in part.items() if key != "premise"}
    row = {
        "id": case.id,
        "case_file": case.case_file,
        "op": case.op,
        "provider": case.provider,
        "provider_version": None,
        "dispatch": None,
        "precision": None,
        "params": dict(case.params),
        "seed": case.seed,
        "input_fingerprint": None,
        "verdict": "harness_error",
        "also_failed": [],
        "message": "",
        "metrics": {},
        "trivial": [],
        "first_bad": None,
        "bad_count": 0,
        "element_count": 0,
        "diagnosis": [],
    }
    row.update({key: value for key, value in known.items() if key not in ("id", "case_file", "op", "provider", "seed", "timing")})
    row.update({key: harmless(row[key]) for key in FROM_KERNELS if isinstance(row[key], str)})
    row["timing"] = {**dict.fromkeys(TIMES), **(known.get("timing") or {})}
    return row


def tainted(part: dict[str, Any]) -> bool:
    """Whether the agent that answered so must not judge another case; an ordinary exception leaves it as it was."""
    unknown = part.get("premise", "unknown") == "unknown"
    return part["verdict"] == "crash" and (unknown or bool(TAINTING.search(part.get("message") or "")))


def of_end(case: Case, ended: Ended) -> dict[str, Any]:
    """The row of a case whose agent did not answer.

    A death is the kernel's once the kernel was called in that process; running out of time is the kernel's only while its
    code runs; nonsense on the wire is the harness's.
    """
    where = f" in phase {ended.phase}" if ended.phase else ""
    if ended.how == "nonsense":
        verdict = "harness_error"
    elif ended.how == "hung":
        verdict = "timeout" if ended.phase in PROVIDERS_PHASES else "harness_error"
    else:
        verdict = "harness_error" if ended.phase in (None, "inputs") else "crash"
    message = f"{ended.what}{where}"
    if ended.phase in ("reference", "judge") and verdict == "crash":
        message += ", after the kernel had returned: most likely it wrote over memory that was not its own"
    message += f"; it printed:\n{ended.output}" if ended.output else ""
    return complete(case, {"verdict": verdict, "message": message, "phase": ended.phase})


def failed_premise(case: Case, row: dict[str, Any], premise: dict[str, Any]) -> dict[str, Any]:
    """The row of a kernel that died on a case whose premise fails: `invalid_case`, with the death in the message."""
    message = f"{premise.get('message') or 'the premise of the case fails'}; the kernel ended in {row['verdict']}: {row['message']}"
    return complete(case, {**row, **{k: v for k, v in premise.items() if k != "timing"}, "verdict": "invalid_case", "message": message})
