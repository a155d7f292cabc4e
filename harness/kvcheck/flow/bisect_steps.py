"""One candidate of a bisect: its cases, run in the place that the target made for it."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import kvcheck
from kvcheck.cases.model import Case
from kvcheck.cases.plan import load_all, plan
from kvcheck.execute import journal, zipapp
from kvcheck.execute.errors import ExecuteError, StartError, UsageError
from kvcheck.execute.executor import Executor
from kvcheck.execute.launch import Launcher, ProcessLauncher, choose_python
from kvcheck.flow import bisect_rows, record, threshold
from kvcheck.flow.bisect_options import BisectOptions
from kvcheck.flow.book import ROW_KEYS
from kvcheck.flow.options import NothingJudged
from kvcheck.search.bisect_evidence import Evidence
from kvcheck.targets.base import Place, Unavailable

python_of = functools.lru_cache(maxsize=None)(choose_python)
"""`choose_python`, asked once: it starts interpreters."""


@dataclasses.dataclass(frozen=True)
class Ran:
    """One run of a candidate.

    Args:
        evidence: what every case says, by probe.
        rows: of the cases, as run.json has them, by probe.
        environment: what the agent reported.
        started: when it began.
        wall_s: how long it took.
        name: of the case file.
        seed: of the inputs.
    """

    evidence: Evidence
    rows: dict[str, dict[str, Any]]
    environment: dict[str, Any]
    started: datetime.datetime
    wall_s: float
    name: str
    seed: int


def cases_of(options: BisectOptions, providers: tuple[str, ...] = ()) -> dict[str, Case]:
    """The cases of a step by probe: `CASE_ID@PROVIDER`, the provider as the user typed it, whatever a candidate puts in its stead.

    Args:
        options: what was asked for.
        providers: stand in for the typed ones and the case file's.

    Raises:
        CaseFileError: the command line or a file cannot be followed.
        NothingJudged: no case was selected.
    """
    run = options.run
    typed = run.providers
    named = dict(zip(providers, typed, strict=True)) if len(providers) == len(typed) else {}
    only = [_translated(text, named) for text in run.only]
    planned = plan(run.cases, options.overrides(providers or typed), only=only, limit=run.limit)
    if not planned.cases:
        raise NothingJudged("no case was selected")
    names = {
        provider: named.get(provider) or _name(provider, number, bool(providers))
        for number, provider in enumerate(providers or typed, start=1)
    }
    cases = [dataclasses.replace(case, diagnose=run.diagnose) for case in planned.cases]
    return {f"{case.id}@{names.get(case.provider, case.provider)}": case for case in cases}


def asked(options: BisectOptions) -> str:
    """Names what a step asks of a candidate: answers to something else are not its answers."""
    run = options.run
    cases = [[probe, {**case.request(), "provider": ""}] for probe, case in cases_of(options).items()]
    how = [run.device, list(run.sanitizer_off), run.python, run.timeout, options.runs, options.find]
    return journal.plan_hash([cases, how, kvcheck.__version__])


def run_once(place: Place, options: BisectOptions, device: Mapping[str, Any] | None) -> Ran:
    """Runs the cases of a step in agents of their own.

    Args:
        place: where.
        options: what was asked for.
        device: type and arch that the bisect runs on; None takes any.

    Raises:
        StartError, Unavailable: nothing could be run here, and why.
        UsageError: an option cannot be.
    """
    cases = cases_of(options, place.providers)
    started, begun = datetime.datetime.now(), time.monotonic()
    with _executor(place, options) as executor:
        environment = dict(executor.wait_ready())
        found = device_of(environment)
        if device and found != dict(device):
            raise Unavailable(f"it ran on {told(found)}, and this bisect runs on {told(device)}: name the device with --device")
        futures = {probe: executor.submit(case) for probe, case in cases.items()}
        rows = {probe: future.result() for probe, future in futures.items()}
    evidence = {probe: bisect_rows.result(row) for probe, row in rows.items()}
    extra = tuple(place.facts.get("_words", ()))
    rows = {probe: _row(row, cases[probe], _provider(probe, cases[probe]), options, extra) for probe, row in rows.items()}
    first = next(iter(cases.values()))
    environment["kvcheck"] = kvcheck.__version__
    return Ran(evidence, rows, environment, started, time.monotonic() - begun, first.id.partition("[")[0], first.seed)


def flips(place: Place, options: BisectOptions, failing: Iterable[str]) -> list[dict[str, Any]]:
    """Where the verdict flips in a place, along the axes that the case files name.

    Args:
        place: where.
        options: what was asked for.
        failing: probes that fail there: case files and providers of others are left out.

    Returns:
        thresholds: entries as run.json has them; none where single cases were picked, as `kvcheck run` has it.

    Raises:
        ExecuteError: nothing could be run here.
    """
    if options.run.only or not options.run.thresholds:
        return []
    wanted = {case.provider: _provider(probe, case) for probe, case in cases_of(options, place.providers).items() if probe in set(failing)}
    names = {probe.partition("[")[0] for probe in failing}
    files = load_all(options.run.cases, options.overrides(place.providers or options.run.providers))
    searches = [search for file in files if file.threshold and file.name in names for search in threshold.plan(file)]
    searches = [search for search in searches if search.provider in wanted]
    if not searches:
        return []
    with _executor(place, options) as executor:
        executor.wait_ready()

        def judge(cases: Sequence[Case]) -> list[dict[str, Any]]:
            return [future.result() for future in [executor.submit(case) for case in cases]]

        return [{**threshold.find(search, judge)[0], "provider": wanted[search.provider]} for search in searches]


def write(ran: Ran, options: BisectOptions, folder: Path) -> None:
    """Leaves a run's folder: run.json, results.csv, report.md."""
    folder.mkdir(parents=True, exist_ok=True)
    content = record.compose(options.run, ran.started, ran.wall_s, ran.environment, list(ran.rows.values()), [], ran.name, ran.seed)
    record.write(content, folder)


def device_of(environment: Mapping[str, Any]) -> dict[str, Any]:
    """What of a device must be the same in every step."""
    facts = environment.get("device") or {}
    return {name: facts.get(name) for name in ("type", "arch") if facts.get(name) is not None}


def told(device: Mapping[str, Any]) -> str:
    """A device in words."""
    return " ".join(dict.fromkeys(str(value) for value in device.values())) or "an unknown device"


@contextlib.contextmanager
def _executor(place: Place, options: BisectOptions) -> Iterator[Executor]:
    """Agents in a place; everything they left is gone afterwards."""
    run = options.run
    scratch = Path(tempfile.mkdtemp(prefix="kvcheck-bisect-"))
    try:
        launcher = _Launched(_launcher(place, options, scratch), place.variables)
        fixed = dict(memory_limit=run.memory, sanitizer_off=run.sanitizer_off, spare=False)
        with Executor(run.device, jobs=run.jobs, timeout=run.timeout, launcher=launcher, **fixed) as executor:
            yield executor
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class _Launched:
    """A launcher whose agents have a place's variables."""

    def __init__(self, launcher: Launcher, variables: Mapping[str, str | None]) -> None:
        self._launcher, self._variables = launcher, variables

    def __getattr__(self, name: str) -> Any:
        return getattr(self._launcher, name)

    def launch(self, arguments: list[str], mark: str, variables: Mapping[str, str | None]) -> subprocess.Popen[bytes]:
        """Starts one agent; a case's own variables win."""
        return self._launcher.launch(arguments, mark, {**self._variables, **variables})


def _launcher(place: Place, options: BisectOptions, scratch: Path) -> Launcher:
    if place.launcher is not None:
        return place.launcher(scratch)
    if place.python is None:
        python = python_of(options.run.python)
    else:
        try:
            python = choose_python(place.python)
        except UsageError as error:
            raise StartError(str(error), final=True) from error
    neutral = scratch / "cwd"
    neutral.mkdir()
    return ProcessLauncher(python, zipapp.build(scratch), neutral)


def _row(row: dict[str, Any], case: Case, provider: str, options: BisectOptions, extra: tuple[str, ...]) -> dict[str, Any]:
    """A row as run.json has it; repeated with the provider as it was typed, since what stands in for it may be gone by then."""
    again = options.run.again(case.case_file, provider if provider in options.run.providers else case.provider, ["--only", case.id, *extra])
    row = {"diagnosis": [], **row, "repro": again}
    return {key: row[key] for key in ROW_KEYS if key in row}


def _translated(text: str, named: Mapping[str, str]) -> str:
    """A CASE_ID@PROVIDER of the command line, for the provider that stands in for the typed one."""
    for there, typed in named.items():
        if text.endswith(f"]@{typed}"):
            return f"{text.removesuffix(typed)}{there}"
    return text


def _provider(probe: str, case: Case) -> str:
    """A provider as a probe has it: as typed, or its place in the list."""
    return probe[len(case.id) + 1 :]


def _name(provider: str, number: int, given: bool) -> str:
    """What a provider is called in every step: a path differs from candidate to candidate, its place in the list does not."""
    plain = not given or not ("@" in provider or provider.endswith(".py"))
    return provider if plain else f"provider {number}"


Failure = (ExecuteError, Unavailable)
"""What ends a run of a candidate without an answer."""
