"""What a bisect does once its search has ended: which packages differ, which row shows it, what looks further inside."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvcheck.execute.errors import ExecuteError
from kvcheck.flow import bisect_rows, bisect_state
from kvcheck.flow.bisect_options import BisectOptions
from kvcheck.flow.bisect_state import State
from kvcheck.flow.bisect_walk import Walk
from kvcheck.search.bisect_confidence import Rate
from kvcheck.search.bisect_evidence import BAD, GOOD, Answer
from kvcheck.search.bisect_found import AGAIN, FOUND, Found
from kvcheck.targets.base import Candidate, Target, Unavailable

MOST_ROWS = 20
"""Rows of run.json that are looked at for the evidence of a failure, by folder."""


def conclude(target: Target, options: BisectOptions, state: State, found: Found, walk: Walk) -> None:
    """Completes the state of a bisect whose search has ended, on disk.

    Args:
        target: the range.
        options: what was asked for.
        state: gets `result`, and the answers of steps whose fault was not known yet when they ran.
        found: by the search.
        walk: runs what the target wants to know beyond its range.
    """
    candidates = state.candidates
    for step in state.data["steps"]:
        answer = found.answers.get(step["index"]) if step["why"] != AGAIN else None
        if step["kind"] is None and answer is not None:
            step.update(kind=answer.kind, reason=answer.reason)
    result = _plain(found, options.runs)
    if found.good is not None and found.bad is not None:
        good, bad = candidates[found.good], candidates[found.bad]
        result["evidence"] = _evidence(state, found)
        result.update(_contents(target, good, bad))
        result["deeper"] = [list(map(str, words)) for words in target.deeper(good, bad)]
        if found.outcome == FOUND:
            result["extra"] = _extra(target, walk, found, good, bad)
    result["finished"] = bisect_state.now()
    result["exit_code"] = 0 if found.outcome == FOUND else 3
    state.data["result"] = result
    state.save()


def look_deeper(state: State, say: Callable[[str], None], quiet: bool) -> None:
    """Runs the first command that looks inside the difference, and keeps its report.

    Args:
        state: of a bisect that has ended; its result gets `deep`.
        say: told what is run.
        quiet: whether the command says nothing of its progress.
    """
    result = state.data["result"]
    commands = result.get("deeper") or []
    if result["outcome"] != FOUND or (result.get("deep") or {}).get("exit_code") in (0, 3):
        return
    if not commands or any("<" in word and ">" in word for word in commands[0]):
        why = "there is no command that looks further inside" if not commands else "the command has a place that only you can fill in"
        result["deep"] = {"words": commands[0] if commands else [], "exit_code": None, "why": why}
        state.save()
        return
    folder = state.folder / "deep"
    words = commands[0][1:] if commands[0][0] == "kvcheck" else commands[0]
    if (folder / bisect_state.NAME).is_file():
        words = ["bisect", "resume", str(folder)]
    else:
        words = [*words, "--out", str(folder), *(["--quiet"] if quiet else [])]
    say(f"one level deeper: kvcheck {' '.join(words)}")
    done = subprocess.run([sys.executable, "-m", "kvcheck.cli.main", *words], stdout=subprocess.DEVNULL, check=False)
    report = folder / "report.md"
    text = report.read_text(encoding="utf-8") if report.is_file() else ""
    result["deep"] = {"words": words, "exit_code": done.returncode, "why": "" if text else "it left no report", "report": text}
    state.save()


def _plain(found: Found, runs: int) -> dict[str, Any]:
    """What was found, as JSON has it."""
    return {
        "outcome": found.outcome,
        "good": found.good,
        "bad": found.bad,
        "between": list(found.between),
        "untried": list(found.untried),
        "moved": [list(entry) for entry in found.moved],
        "turns": [list(entry) for entry in found.turns],
        "questions": found.questions,
        "sought": {"identity": _listed(found.sought.identity), "probes": sorted(found.sought.probes)} if found.sought else None,
        "rate": _rate(found.rate, runs) if found.rate else None,
        "answers": {str(index): _answer(answer) for index, answer in found.answers.items()},
        "again": {str(index): _answer(answer) for index, answer in found.again.items()},
        "others": [{"probe": probe, "identity": _listed(how), "where": where} for (probe, how), where in found.others.items()],
    }


def _rate(rate: Rate, runs: int) -> dict[str, Any]:
    return {
        "failures": rate.failures,
        "runs": rate.runs,
        "p": rate.estimate,
        "p_at_least": rate.at_least,
        "confidence": rate.confidence(runs),
        "confidence_at_least": rate.worst(runs),
        "needed": rate.needed(),
    }


def _answer(answer: Answer) -> dict[str, Any]:
    return {key: value for key, value in dataclasses.asdict(answer).items() if key != "others"}


def _listed(how: Any) -> list[str]:
    return [str(part) for part in how] if isinstance(how, tuple) else [str(how)]


def _evidence(state: State, found: Found) -> dict[str, Any] | None:
    """The row that shows the fault at the first bad candidate."""
    key = state.candidates[found.bad].key
    for step in state.data["steps"]:
        if step["key"] != key or step.get("dropped"):
            continue
        for file in sorted((state.folder / step["folder"]).rglob("run.json"))[:MOST_ROWS]:
            for row in _rows(file):
                if bisect_rows.identity(row) == found.sought.identity:
                    return {**row, "folder": str(file.parent.relative_to(state.folder))}
    return None


def _rows(file: Path) -> list[dict[str, Any]]:
    try:
        return json.loads(file.read_text(encoding="utf-8"))["cases"]
    except (OSError, ValueError, KeyError):
        return []


def _contents(target: Target, good: Candidate, bad: Candidate) -> dict[str, Any]:
    """Packages that differ between two candidates."""
    try:
        before, after = dict(target.contents(good)), dict(target.contents(bad))
    except (Unavailable, ExecuteError, OSError) as error:
        return {"differences": [], "contents_error": str(error)}
    names = [name for name in dict.fromkeys([*before, *after]) if before.get(name) != after.get(name)]
    differences = [{"package": name, "good": before.get(name), "bad": after.get(name)} for name in names]
    return {"differences": differences, "alike": len({*before, *after}) - len(names)}


def _extra(target: Target, walk: Walk, found: Found, good: Candidate, bad: Candidate) -> dict[str, Any] | None:
    """What the target wants tried beyond its range, and what it makes of the answers."""
    wanted = getattr(target, "extra", None)
    places = wanted(good, bad) if wanted else ()
    if not places:
        return None
    answers = {good.label: GOOD, bad.label: BAD}
    rows = [{"label": good.label, "kind": GOOD, "reason": ""}, {"label": bad.label, "kind": BAD, "reason": ""}]
    for label, place in places:
        answer = walk.ask_extra(label, place, found.sought)
        answers[label] = answer.kind
        rows.append({"label": label, "kind": answer.kind, "reason": answer.reason})
    return {"title": getattr(target, "extra_title", "Tried beyond the range"), "rows": rows, "sentence": target.conclude(answers)}
