"""What `kvcheck repro` does: finds the row, writes its script, and runs it before it says that it fails."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kvcheck
from kvcheck.execute.launch import absolute_provider, agent_environment, choose_python
from kvcheck.flow.options import UsageError
from kvcheck.flow.outcome import NOTHING_JUDGED, PASSED
from kvcheck.flow.render import read
from kvcheck.flow.repro_rows import find_row, wanted
from kvcheck.report.words.clean import clean
from kvcheck.repro import relations
from kvcheck.repro.parts import NoScript
from kvcheck.repro.script import text

ENDS = frozenset({"crash", "timeout", "wrong_shape"})
"""Verdicts whose script ends in what the kernel does, and not in a comparison."""

TIMEOUT = 180.0


@dataclass(frozen=True)
class Request:
    """The options of `kvcheck repro`.

    Attributes:
        run: folder of a run, or its run.json.
        case: CASE_ID or CASE_ID@PROVIDER.
        out: the script's file; None: one in the run's folder.
        run_it: whether the script is run once it is written.
        python: interpreter that runs it, "auto", or None for kvcheck's own where it has torch.
        timeout: seconds that it may take.
        words: the command line as typed.
    """

    run: Path
    case: str
    out: Path | None = None
    run_it: bool = True
    python: str | None = None
    timeout: float = TIMEOUT
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What came of a script.

    Attributes:
        code: its exit status; None: it did not end in time.
        said: what it printed.
        confirmed: whether it did what the row of the run says.
        why: a sentence.
    """

    code: int | None
    said: str
    confirmed: bool
    why: str


def repro(request: Request) -> tuple[str, int]:
    """Writes the script of a row, and runs it.

    Returns:
        words: what to tell the user.
        code: 0 where the script does what the run saw (or was not to be run), 3 where that could not be confirmed.

    Raises:
        UsageError: no such row, or one of which no script can be written.
    """
    run = read(request.run)
    row = find_row(run, request.case)
    kernel = Path(absolute_provider(str(row["provider"])))
    if kernel.suffix == ".py" and not kernel.is_file():
        raise UsageError(f"CASE_ID: the run's provider is {row['provider']}, and there is no {kernel}: start where the run was started")
    file = request.out or _folder(request.run) / f"repro-{_slug(row)}.py"
    device = (run.get("environment") or {}).get("device") or {}
    scripts = _scripts(run, row, shlex.join(["kvcheck", *request.words]) if request.words else None)
    first = next(scripts)
    _write(file, first)
    told = [f"{file}: {len(first.splitlines())} lines"]
    if not request.run_it:
        return "\n".join([*told, "it was not run (--no-run)"]), PASSED
    if device.get("type") == "emulated":
        return "\n".join([*told, f"not run: it needs a real {device.get('arch')} card, and the run's was emulated"]), NOTHING_JUDGED
    python = choose_python(request.python)
    outcome = tried = confirm(file, row, python, request.timeout)
    for script in scripts if not outcome.confirmed else ():
        _write(file, script)
        tried = confirm(file, row, python, request.timeout)
        if tried.confirmed:
            outcome, told = tried, [f"{file}: {len(script.splitlines())} lines"]
            break
    else:
        if tried is not outcome:
            _write(file, first)
    told += [f"  {each}" for each in clean(outcome.said).splitlines()[-12:]]
    told += [f"exit status {'none: it was stopped' if outcome.code is None else outcome.code}; {outcome.why}"]
    return "\n".join(told), PASSED if outcome.confirmed else NOTHING_JUDGED


def _scripts(run: dict[str, Any], row: dict[str, Any], made_by: str | None) -> Iterator[str]:
    """The script of a row, and others that may show the failure where it does not: with guards beside the outputs, with many calls, of
    the case before it was shrunk, and of a relation's other side.

    Raises:
        UsageError: no script of it can be written.
    """
    refused: NoScript | None = None
    found: list[str] = []
    for source in ({**row}, {key: value for key, value in row.items() if key != "shrunk"}):
        for change in ({}, {"guards": True}, {"turns": True}):
            try:
                base = wanted(run, source, made_by)
                direct = base.verdict != "metamorphic" or base.relation == "repeat" or relations.moved(base)
                others = [base] if direct else relations.others(base)
                for each in others:
                    script = text(dataclasses.replace(each, **change))
                    if script not in found:
                        found.append(script)
                        yield script
            except NoScript as error:
                refused = refused or error
    if not found:
        raise UsageError(f"CASE_ID: no script of {row['id']}@{row['provider']} can be written: {refused}")


def text_for(run: dict[str, Any], row: dict[str, Any]) -> str | None:
    """The script of a row, as text alone: nothing is run.

    Args:
        run: content of run.json.
        row: one of its cases.

    Returns:
        script: at most 80 lines, or None where none can be written.
    """
    try:
        return text(wanted(run, row))
    except NoScript:
        return None


def confirm(file: Path, row: dict[str, Any], python: str, timeout: float = TIMEOUT) -> Outcome:
    """Runs a script in a process of its own, and compares how it ends with what the run saw.

    Args:
        file: the script.
        row: the row that it is of.
        python: interpreter.
        timeout: seconds it may take.
    """
    environment = agent_environment(dict(os.environ), 1)
    if re.search(r"^from kvcheck\.", file.read_text(encoding="utf-8"), re.MULTILINE):
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(kvcheck.__file__).parents[1]), environment.get("PYTHONPATH")]))
    command = [python, str(file.resolve())]
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "errors": "replace"}
    try:
        done = subprocess.run(command, env=environment, cwd=os.sep, timeout=timeout, check=False, **options)
    except subprocess.TimeoutExpired as error:
        said = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else ""
        hung = row["verdict"] == "timeout"
        return Outcome(None, said, hung, f"it did not end within {timeout:g} s{', as in the run' if hung else ''}")
    said = (done.stdout + done.stderr).strip()
    return Outcome(done.returncode, said, *_judged(row, done.returncode, said))


def _judged(row: dict[str, Any], code: int, said: str) -> tuple[bool, str]:
    """Whether a script ended as the row says, and a sentence about it."""
    verdict, message = row["verdict"], str(row.get("message") or "")
    if verdict == "pass":
        return code == 0, "it passes, as the case did" if code == 0 else "the case passed in the run, and the script fails: look at both"
    if code == 0 and verdict == "metamorphic":
        return False, "the other side of the relation is right by itself, within the bound: the two differ in rounding alone"
    if code == 0:
        return False, f"it passes, where the run said {verdict}: the failure may depend on what ran before it, or on the machine"
    if verdict == "crash":
        name = signal.Signals(-code).name if code < 0 else (re.match(r"\w[\w.]*", message) or [""])[0]
        same = bool(name) and name in (message if code < 0 else said)
        return same, f"it ends in {name}, as in the run" if same else "it ends in another way than the run did"
    if "WRONG " in said or (verdict in ENDS and code == 1):
        return True, f"it fails, as it did in the run ({verdict})"
    return False, "it did not come as far as the comparison"


def _folder(run: Path) -> Path:
    return run if run.is_dir() else run.parent


def _slug(row: dict[str, Any]) -> str:
    """A row as part of a file name."""
    provider = Path(str(row["provider"])).stem if str(row["provider"]).endswith(".py") else str(row["provider"])
    return re.sub(r"[^\w.=-]+", "-", f"{provider.partition('@')[0]}-{row['id']}").strip("-")[:120].rstrip("-")


def _write(file: Path, script: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(file.name + ".part")
        part.write_text(script, encoding="utf-8")
        part.replace(file)
    except OSError as error:
        raise UsageError(f"--out: cannot write {file}: {error.strerror}") from error
