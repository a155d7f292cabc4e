"""What `kvcheck compile` does: cases to agents that compile and run nothing, their answers to one row a kernel and target."""

from __future__ import annotations

import datetime
import json
import re
import shlex
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kvcheck
from kvcheck.agent.chips import CHIPS
from kvcheck.agent.protocol import parse_provider
from kvcheck.agent.specs import nearest
from kvcheck.cases.model import Case
from kvcheck.cases.overrides import Overrides
from kvcheck.cases.plan import plan
from kvcheck.execute import memory
from kvcheck.execute.errors import StartError
from kvcheck.execute.executor import Executor
from kvcheck.execute.launch import choose_python
from kvcheck.flow.compiled import differences, kernels
from kvcheck.flow.options import NothingJudged, UsageError
from kvcheck.flow.outcome import FAILED, PASSED, exit_code
from kvcheck.report.progress import Progress

SCHEMA = "kvcheck.compile/1"
DEFAULT_TARGETS = ("gfx942", "gfx950")
DEFAULT_CASES = ("compile", "compile_topk")
FORMATS = ("table", "json")
REFUSED = "does not compile for"
TIMEOUT = 300.0
"""Seconds that a provider's launch code may take; compiling has the start-up limit of its own."""


@dataclass(frozen=True)
class Request:
    """The options of `kvcheck compile`.

    Attributes:
        cases: case files; none: the built-in list of shapes.
        targets: chips; none: gfx942 and gfx950.
        providers: replace the files' lists when not empty.
        sets: `axis=v1,v2` replacements.
        python: interpreter of the agents, or None (see `choose_python`).
        against: provider to compare with, or None.
        against_python: interpreter to compare with, or None.
        out: folder that gets compile.json, or None.
        form: table or json.
        quiet: no progress.
        words: the command line as typed.
    """

    cases: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    python: str | None = None
    against: str | None = None
    against_python: str | None = None
    out: Path | None = None
    form: str = "table"
    quiet: bool = False
    words: tuple[str, ...] = ()


def compile_(request: Request) -> tuple[dict[str, Any], int]:
    """Compiles, and compares where that is asked for.

    Returns:
        report: of schema kvcheck.compile/1: run, environment, rows; with another side: against, against_rows, differences.
        code: 0 all compiled, 1 a kernel did not (with another side: newly), 3 nothing was compiled.

    Raises:
        CaseFileError, UsageError: the command line cannot be followed.
        NothingJudged: no case was selected.
    """
    if request.form not in FORMATS:
        raise UsageError(f"--format: expected table or json, got {request.form!r}; nearest: {nearest(request.form, FORMATS)}")
    targets = tuple(dict.fromkeys(target(text) for text in request.targets or DEFAULT_TARGETS))
    providers = request.providers
    if request.against:
        providers = providers or (parse_provider(request.against)[0],)
        if len(providers) > 1:
            raise UsageError(f"--against: expected one --provider to compare with {request.against}, got {len(providers)}")
    started, begun = datetime.datetime.now(), time.monotonic()
    sides = [(choose_python(request.python), _cases(request, providers))]
    if request.against or request.against_python:
        other = choose_python(request.against_python) if request.against_python else sides[0][0]
        sides.append((other, _cases(request, (request.against,) if request.against else providers)))
    jobs = [(python, one, cases) for python, cases in sides for one in targets]
    with Progress(sum(len(cases) for _, _, cases in jobs), quiet=request.quiet) as progress, ThreadPoolExecutor(memory.cores()) as pool:
        answers = list(pool.map(lambda job: _ask(*job, progress), jobs))
    sections = [answers[at : at + len(targets)] for at in range(0, len(answers), len(targets))]
    found = [kernels((one, row) for one, (_, rows) in zip(targets, section, strict=True) for row in rows) for section in sections]
    code = exit_code(row["verdict"] for row in found[0].rows)
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "run": {
            "command": shlex.join(["kvcheck", *request.words]),
            "started": started.astimezone().isoformat(timespec="seconds"),
            "wall_s": round(time.monotonic() - begun, 3),
            "targets": list(targets),
            "case_files": list(request.cases or DEFAULT_CASES),
            "exit_code": code,
        },
        "environment": _environment(sections[0]),
        "rows": found[0].rows,
    }
    if len(sections) > 1:
        report["against"] = {"provider": request.against, "python": request.against_python, "environment": _environment(sections[1])}
        report["against_rows"] = found[1].rows
        report["differences"] = differences(found[0], found[1])
        if any(entry["kind"] == "newly_fails" for entry in report["differences"]):
            code = FAILED
        elif code == FAILED and any(row["verdict"] == "pass" for row in found[0].rows):
            code = PASSED
        report["run"]["exit_code"] = code
    _write(request.out, report)
    return report, code


def target(text: str) -> str:
    """A chip's name as kvcheck writes it: gfx950, sm_90 (sm90 is understood).

    Raises:
        UsageError: no chip can be called so; with the nearest that is known.
    """
    name = re.sub(r"^sm_?(?=\d)", "sm_", text.strip().lower())
    if name in CHIPS or re.fullmatch(r"gfx[0-9a-f]{3,4}|sm_\d{2,3}", name):
        return name
    raise UsageError(f"--target: expected a chip such as {', '.join(CHIPS)}; got {text!r}; nearest: {nearest(name, CHIPS)}")


def _cases(request: Request, providers: Sequence[str]) -> tuple[Case, ...]:
    planned = plan(request.cases or DEFAULT_CASES, Overrides(sets=request.sets, providers=tuple(providers)))
    if not planned.cases:
        raise NothingJudged("no case was selected")
    return planned.cases


def _ask(python: str, name: str, cases: Iterable[Case], progress: Progress) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The environment of the agents that compile for one chip, and the row of every case."""
    with Executor(f"compile:{name}", python, jobs=1, timeout=TIMEOUT, memory_limit=0, spare=False) as executor:
        try:
            environment = executor.wait_ready()
        except StartError as error:
            if name in CHIPS or REFUSED not in str(error):
                raise  # it is no fault of the name
            raise UsageError(f"--target: {error}; kvcheck knows of {', '.join(CHIPS)}; nearest: {nearest(name, CHIPS)}") from error
        rows = []
        for future in [executor.submit(case) for case in cases]:
            rows.append(future.result())
            progress.done(rows[-1])
        return {**environment, "kvcheck": kvcheck.__version__}, rows


def _environment(section: Sequence[tuple[dict[str, Any], Any]]) -> dict[str, Any]:
    """What agents of all targets say of the machine; `device` says of every target what stands in for it."""
    return {**section[0][0], "device": {"type": "compile", "targets": [environment.get("device") for environment, _ in section]}}


def _write(out: Path | None, report: dict[str, Any]) -> None:
    if out is None:
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        part = out / "compile.json.part"
        part.write_text(json.dumps(report, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        part.replace(out / "compile.json")
    except OSError as error:
        raise UsageError(f"--out: cannot write to {out}: {error.strerror}") from error
