"""`kvcheck vet`: somebody's script run under watch, honestly and with a planted fault, and what that says of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvcheck.agent.specs import nearest
from kvcheck.execute import stderr, zipapp
from kvcheck.execute.launch import agent_environment, choose_python
from kvcheck.flow import vet_findings, vet_shapes, vet_source
from kvcheck.flow.options import UsageError

SCHEMA = "kvcheck.vet/1"
FORMATS = ("table", "json")
KEPT = 1 << 20
"""Bytes of a script's output that are looked at."""

STARTUP = 300.0
"""Seconds that an interpreter may take to import torch."""

RUN = "import sys; sys.path.insert(0, sys.argv.pop(1)); from kvcheck.agent.vet.start import main; main()"


@dataclass(frozen=True)
class Request:
    """What is asked for.

    Attributes:
        script: the reporter's file; read and run, never changed.
        rest: its own arguments.
        python: interpreter that runs it, "auto", or None.
        timeout: seconds that each of its runs may take.
        form: table or json.
        well_formed: whether the same shapes are judged with inputs that mean something.
    """

    script: Path
    rest: tuple[str, ...] = ()
    python: str | None = None
    timeout: float = 120.0
    form: str = "table"
    well_formed: bool = True


@dataclass(frozen=True)
class Run:
    """One run of the script.

    Attributes:
        events: what was seen, in order.
        printed: its output and errors, the end of them.
        code: exit status; None where it was ended at the limit.
    """

    events: tuple[dict[str, Any], ...]
    printed: str
    code: int | None

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        """Events of some kinds."""
        return [event for event in self.events if event["type"] in kinds]


def examine(request: Request) -> tuple[dict[str, Any], int]:
    """Runs the script and judges it.

    Returns:
        report: of schema kvcheck.vet/1.
        code: 0 the script can prove what it says, 1 it cannot, 3 it could not be run.

    Raises:
        UsageError: no such script, or one that no Python reads.
        StartError: no interpreter with torch.
    """
    if request.form not in FORMATS:
        raise UsageError(f"--format: expected table or json, got {request.form!r}; nearest: {nearest(request.form, FORMATS)}")
    if not request.script.is_file():
        raise UsageError(f"SCRIPT.py: expected a Python file, got {request.script}, which is not there")
    try:
        noticed = vet_source.examine(request.script.read_text(encoding="utf-8", errors="replace"))
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"SCRIPT.py: {request.script} is no Python: {error}") from error
    python = choose_python(request.python)
    with tempfile.TemporaryDirectory(prefix="kvcheck-vet-") as scratch:
        archive = zipapp.build(Path(scratch))
        honest = _run(request, python, archive, Path(scratch), wrong=False)
        error, installed = _error(honest, request), any(event.get("real") for event in honest.of("start"))
        found = vet_findings.judge(noticed, honest, stopped=bool(error), installed=installed)
        planted = None
        if honest.of("call") and not (error or installed or any(finding["level"] == "void" for finding in found)):
            # Nothing speaks against it so far: what does it say of a kernel that is wrong everywhere?
            planted = _run(request, python, archive, Path(scratch), wrong=True)
            found += vet_findings.contrast(honest, planted)
    voids = [finding for finding in found if finding["level"] == "void"]
    shapes = vet_shapes.shapes(honest.of("call"), honest.of("topk")) if request.well_formed else []
    why = "no decode call to repeat" if request.well_formed else "not asked for"
    well_formed = vet_shapes.judge(shapes, python, request.timeout) if shapes else {"rows": [], "why": why}
    code = 3 if error and not (voids and honest.of("call")) else int(bool(voids))
    if not honest.of("call") and not error:
        error = "none of the entry points that kvcheck knows was called: nothing that the script does could be looked at"
        code = 1 if voids else 3
    return {
        "schema": SCHEMA,
        "script": str(request.script),
        "exit_code": code,
        "can_prove": None if code == 3 else code == 0,
        "error": error,
        "kernels": "installed" if installed else "stand-in",
        "findings": found,
        "points": vet_findings.points(honest),
        "well_formed": well_formed,
        "printed": honest.printed,
        "printed_with_fault": planted.printed if planted else None,
    }, code


def _run(request: Request, python: str, archive: Path, scratch: Path, wrong: bool) -> Run:
    folder = scratch / ("wrong" if wrong else "honest")
    work = folder / "work"
    work.mkdir(parents=True)
    script = os.path.abspath(request.script)
    diary = folder / "diary.jsonl"
    options = ["--diary", str(diary), *(["--wrong"] if wrong else [])]
    environment = agent_environment({**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, 1)
    with open(folder / "printed", "wb") as printed:
        process = subprocess.Popen(
            [python, "-c", RUN, str(archive), *options, "--", script, *request.rest],
            cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        _wait_started(process, diary)
        code: int | None = process.wait(request.timeout)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # and what the script itself started
        process.wait()
    events = []
    if diary.is_file():
        for line in diary.read_bytes().splitlines():
            with contextlib.suppress(ValueError):  # the last line of a process that was ended in the middle of it
                events.append(json.loads(line))
    with open(folder / "printed", "rb") as file:
        file.seek(max(0, os.path.getsize(folder / "printed") - KEPT))
        printed = stderr.harmless(file.read().decode(errors="replace"))
    return Run(tuple(events), printed.replace(f"{scratch}{os.sep}", ""), code)


def _wait_started(process: subprocess.Popen[bytes], diary: Path) -> None:
    """Until torch is imported and the script begins: what that takes is no part of the script's time."""
    ends = time.monotonic() + STARTUP
    while process.poll() is None and time.monotonic() < ends and not (diary.is_file() and diary.stat().st_size):
        time.sleep(0.05)


def _error(run: Run, request: Request) -> str | None:
    """Why the script did not come to its end; None where it did, a failed assertion included: that is its answer."""
    if run.code is None:
        return f"it was still running after {request.timeout:g} s (--timeout)"
    ended = run.of("end")
    if not ended:
        return f"its process ended with status {run.code}: {stderr.quote(run.printed) or 'it said nothing'}"
    if ended[0].get("error") and not ended[0].get("assertion"):
        return f"{ended[0]['error']}" + (f" (line {ended[0]['place']})" if ended[0].get("place") else "")
    return None
