"""`kvcheck shrink` and `run --shrink`: a row of a run made a case again, shrunk where it ran, and written down."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kvcheck.cases.model import Case
from kvcheck.execute.seat import CaseExecutor
from kvcheck.flow import record, render, shrink_files
from kvcheck.flow.options import NothingJudged, Options, UsageError, check_device, check_sanitizer
from kvcheck.flow.outcome import FAILED
from kvcheck.flow.shrink import Shrunk, find_row, identity, rebuild, shrink_case
from kvcheck.flow.sites import Sites, labels
from kvcheck.flow.where import Where
from kvcheck.report import shrunk as report
from kvcheck.report.progress import Progress
from kvcheck.report.words.rows import identity as named
from kvcheck.report.words.rows import is_failure
from kvcheck.search.shrink import Budget

FILE = "shrunk.yaml"
FORMATS = ("table", "json")
HANG = 10.0
"""Seconds that a case may take where the failure is that it takes for ever; the result is given its full time once."""

EACH = Budget(200, 60.0)
"""What `run --shrink` spends on one failure."""

MOST = 10
"""Failures that `run --shrink` looks into."""

INTERRUPTED = 130

SINGLE = ("--device", "--python", "--timeout", "--memory", "--exec", "--engine")
SEVERAL = ("--sanitizer-off", "--image", "--engine-option", "--mount")


@dataclasses.dataclass(frozen=True)
class Request:
    """The options of `kvcheck shrink`; None and empty ones are those of the run.

    Attributes:
        run: folder of a finished run, or its run.json.
        case: CASE_ID or CASE_ID@PROVIDER.
        budget: what may be spent.
        device, python, timeout, memory, sanitizer_off, where: as of `run`.
        out: folder that gets shrunk.yaml and shrunk.json.
        form: table or json.
        quiet: no progress.
        mask: whether paths, names and tokens are taken out of shrunk.json.
    """

    run: Path
    case: str
    budget: Budget
    device: str | None = None
    python: str | None = None
    timeout: float | None = None
    memory: int | None = None
    sanitizer_off: tuple[str, ...] = ()
    where: Where | None = None
    out: Path | None = None
    form: str = "table"
    quiet: bool = False
    mask: bool = True


def shrink(request: Request) -> int:
    """Runs it.

    Returns:
        code: 1, as a kernel is wrong; 130 where it was interrupted, with what was found so far.

    Raises:
        UsageError: the command line or the run cannot be followed.
        NothingJudged: the failure does not repeat.
    """
    if request.form not in FORMATS:
        raise UsageError(f"--format: expected table or json, got {request.form!r}")
    run = render.read(request.run)
    row = find_row(run, request.case)
    case = here(row)
    options = _options(request, run, row)
    check_device(options.device)
    check_sanitizer(options.sanitizer_off, options.device)
    limit = min(options.timeout, HANG) if row["verdict"] == "timeout" and request.timeout is None else options.timeout
    out = record.folder(options, f"{shrink_files.base(case)}-shrunk")
    with Progress(request.budget.evaluations, quiet=request.quiet) as progress:
        site = next(Sites(options, [case.provider]).each(progress.note))
        site.options = dataclasses.replace(site.options, timeout=limit)
        with site.executor(jobs=1) as executor:
            executor.wait_ready()
            judge = _judge(executor, progress)
            found = _diagnosed(shrink_case(case, judge, request.budget, row), judge)
        if limit < options.timeout:
            site.options = dataclasses.replace(site.options, timeout=options.timeout)
            with site.executor(jobs=1) as executor:
                found = _patient(found, _judge(executor, progress), options.timeout)
    whole = shrink_files.content(found, out / FILE, options)
    whole["of"] = {"run": str(request.run), **whole["of"]}
    shrink_files.write(found, whole, out / FILE, request.mask)
    sys.stdout.write((out / FILE).with_suffix(".json").read_text(encoding="utf-8") if request.form == "json" else report.render(whole))
    sys.stdout.write("" if request.form == "json" else f"\n{out}: {FILE}, {Path(FILE).with_suffix('.json')}\n")
    return INTERRUPTED if found.stopped_by == "interrupt" else FAILED


def shrink_rows(rows: Sequence[dict[str, Any]], executor: CaseExecutor, options: Options, out: Path, progress: Progress) -> None:
    """Shrinks the first row of each failure of a run; each gets the key `shrunk`, and a case file under OUT/shrunk.

    Args:
        rows: of one place; changed.
        executor: that judged them.
        options: of that place.
        out: folder of the run.
        progress: told of every case, and of what did not repeat.
    """
    judge = _judge(executor, progress)
    taken = {int(file.stem) for file in (out / "shrunk").glob("*.yaml") if file.stem.isdigit()}
    first: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in filter(is_failure, rows):
        first.setdefault(named(row), row)
    for number, row in enumerate(list(first.values())[:MOST], start=len(taken) + 1):
        file = out / "shrunk" / f"{number}.yaml"
        progress.note(f"shrinking {row['id']}@{row['provider']}")
        try:
            found = _diagnosed(shrink_case(rebuild(row), judge, EACH, row), judge)
        except NothingJudged as error:
            progress.note(str(error))
            continue
        whole = shrink_files.content(found, file, options)
        shrink_files.write(found, whole, file, options.mask)
        row["shrunk"] = shrink_files.brief(whole)
        if found.stopped_by == "interrupt":
            raise KeyboardInterrupt
    if len(first) > MOST:
        progress.note(f"{len(first) - MOST} more failures were not shrunk: kvcheck shrink {out} CASE_ID")


def shrunk_text(run: dict[str, Any]) -> str:
    """What a run's rows say of their smallest cases."""
    rows = [row for row in run["cases"] if row.get("shrunk")]
    texts = [report.render({**row["shrunk"], "of": {"case": row["id"], "provider": row["provider"]}}) for row in rows]
    return "".join(f"\n{text}" for text in texts)


def here(row: dict[str, Any]) -> Case:
    """The case of a row as it is run: the provider without the image that tells it from others in a run of several."""
    image = row.get("image") or {}
    reference = image.get("reference")
    if reference:
        for label in (*labels([reference]).values(), reference):
            row = {**row, "provider": row["provider"].removesuffix(f" in {label}")}
    return rebuild(row)


def from_command(text: str) -> Options:
    """The options of a command line that say where and how its cases ran."""
    found: dict[str, list[str]] = {}
    for option, value in _pairs(shlex.split(text)):
        found.setdefault(option, []).append(os.path.expanduser(value))
    last = {option: values[-1] for option, values in found.items()}
    return Options(
        cases=(),
        device=last.get("--device", "auto"),
        python=last.get("--python"),
        timeout=float(last.get("--timeout", 120.0)),
        memory=int(float(last["--memory"]) * 2**30) if "--memory" in last else None,
        sanitizer_off=tuple(found.get("--sanitizer-off", ())),
        where=Where(
            tuple(found.get("--image", ())),
            last.get("--exec"),
            last.get("--engine"),
            tuple(found.get("--engine-option", ())),
            tuple(found.get("--mount", ())),
        ),
    )


def _pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    following = iter(words)
    for word in following:
        option, equals, value = word.partition("=")
        if option in SINGLE + SEVERAL:
            yield option, value if equals else next(following, "")


def _options(request: Request, run: dict[str, Any], row: dict[str, Any]) -> Options:
    """Where and how the run ran, changed by what the command line says."""
    was = from_command((run.get("run") or {}).get("command") or "")
    if row.get("image"):
        image = row["image"]
        was = dataclasses.replace(was, where=dataclasses.replace(was.where, images=(image.get("id") or image["reference"],)))
    given = {name: getattr(request, name) for name in ("device", "python", "timeout", "memory", "sanitizer_off", "where")}
    changed = {name: value for name, value in given.items() if value}
    return dataclasses.replace(was, **changed, out=request.out, mask=request.mask, quiet=request.quiet)


def _judge(executor: CaseExecutor, progress: Progress) -> Callable[[Case], dict[str, Any]]:
    def judge(case: Case) -> dict[str, Any]:
        row = executor.submit(case).result()
        progress.done(row)
        return row

    return judge


def _diagnosed(found: Shrunk, judge: Callable[[Case], dict[str, Any]]) -> Shrunk:
    """What was found, the fault behind the smallest case looked for."""
    case, row = found.smallest
    if row["verdict"] in ("crash", "timeout") or found.stopped_by == "interrupt":
        return found
    again = judge(dataclasses.replace(case, diagnose=True))
    return dataclasses.replace(found, smallest=(case, again)) if identity(again) == identity(row) else found


def _patient(found: Shrunk, judge: Callable[[Case], dict[str, Any]], limit: float) -> Shrunk:
    """A hang that was looked for with little time, given all of it."""
    case, row = found.smallest
    again = judge(case)
    if identity(again) == identity(row):
        return dataclasses.replace(found, smallest=(case, again))
    note = f"with {limit:g} s this case ends in {again['verdict']}: it is slow, and not seen to hang; try --timeout {limit:g}"
    return dataclasses.replace(found, note=note)
