"""From options to a finished run: plan, execute, search, record, print."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import kvcheck
from kvcheck.agent.protocol import failed
from kvcheck.cases.model import Case, CaseFile
from kvcheck.cases.overrides import Overrides
from kvcheck.cases.plan import load_all, plan
from kvcheck.execute import journal as journals
from kvcheck.execute.errors import StartError
from kvcheck.flow import known as known_failures
from kvcheck.flow import record, render
from kvcheck.flow.book import Book
from kvcheck.flow.options import NothingJudged, Options, check_device, check_sanitizer
from kvcheck.flow.shrink_run import shrink_rows, shrunk_text
from kvcheck.flow.sites import Site, Sites
from kvcheck.flow.threshold import Search, find
from kvcheck.flow.threshold import plan as plan_searches
from kvcheck.report.progress import Progress

THREADS = 64
"""Searches at once; each waits for its cases most of the time."""


def run(options: Options) -> int:
    """`kvcheck run`: every case of every file, then the thresholds that the files ask for.

    Returns:
        code: exit code of CONTRACT.

    Raises:
        CaseFileError, UsageError: the command line or a file cannot be followed.
        NothingJudged: no case was selected.
    """
    render.check(options.formats)
    planned = plan(options.cases, _overrides(options), only=options.only, shard=options.shard, limit=options.limit)
    if not planned.cases:
        raise NothingJudged("no case was selected")
    searches: list[Search] = []
    if options.thresholds and not options.only and not options.shard:
        searches = [search for file in planned.case_files if file.threshold for search in plan_searches(file)]
    cases = [dataclasses.replace(case, diagnose=options.diagnose) for case in planned.cases]
    return _carry_out(options, planned.case_files, cases, searches, planned.notes)


def threshold(options: Options, axis: str | None, ends: tuple[int, int] | None, every: bool) -> int:
    """`kvcheck threshold`: the searches alone. Returns and raises as `run` does."""
    render.check(options.formats)
    files = load_all(options.cases, _overrides(options))
    return _carry_out(options, files, (), [search for file in files for search in plan_searches(file, axis, ends, every)], ())


def _overrides(options: Options) -> Overrides:
    return Overrides(options.sets, options.providers, options.coverage, options.seed, options.repeat, options.fresh, options.precision)


def _carry_out(options: Options, files: Sequence[CaseFile], cases: Sequence[Case], searches: list[Search], notes: Sequence[str]) -> int:
    listed = known_failures.load_all(options.known)
    check_device(options.device)
    check_sanitizer(options.sanitizer_off, options.device)
    places = Sites(options, [case.provider for case in cases] + [search.provider for search in searches])
    out = record.folder(options, files[0].name)
    started, begun = datetime.datetime.now(), time.monotonic()
    journal = journals.Journal(out / journals.NAME, _plan_hash(options, cases, searches), options.resume)
    rows, entries, environments = [], [], []
    with contextlib.closing(journal), Progress(len(cases) * len(places), quiet=options.quiet) as progress:
        for note in notes:
            progress.note(note)
        for site in places.each(progress.note):
            judged, found, environment = _at(site, journal, progress, cases, searches)
            rows += judged
            entries += found
            environments.append((site, environment))
    environment = {**_environment(environments), "kvcheck": kvcheck.__version__}
    seed = options.seed if options.seed is not None else files[0].seed
    wall = time.monotonic() - begun
    content = record.compose(options, started, wall, environment, rows, entries, files[0].name, seed, listed)
    names = record.write(content, out)
    for form in options.formats:
        sys.stdout.write(render.render(content, form))
    sys.stdout.write(shrunk_text(content) if "table" in options.formats else "")
    sys.stdout.flush()
    names += record.write_page(content, out)
    sys.stdout.write(f"\n{out}: {', '.join(names)}\n" if "table" in options.formats else "")
    return content["run"]["exit_code"]


Judged = tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]


def _at(site: Site, journal: journals.Journal, progress: Progress, cases: Sequence[Case], searches: Sequence[Search]) -> Judged:
    """Rows, thresholds and environment of one place. In a run of several, one where nothing can be run has a row a case that says why."""
    try:
        if site.problem:
            raise site.problem
        with site.executor(journal) as executor:
            executor.wait_ready()
            book = Book(executor, progress, site.options, planned=cases)
            rows = book.judge(cases)
            known = {(row["id"], row["provider"]) for row in rows}
            with ThreadPoolExecutor(THREADS) as pool:
                try:
                    found = list(pool.map(lambda search: _search(search, book, site.options.diagnose), searches))
                except BaseException:
                    executor.close()  # or the pool would wait for searches that nobody wants any more
                    raise
            for _, evaluated in found:
                for row in evaluated:
                    if (row["id"], row["provider"]) not in known:
                        known.add((row["id"], row["provider"]))
                        rows.append(row)
            if site.options.shrink:
                shrink_rows(rows, executor, site.options, journal.path.parent, progress)
            return [site.mark(row) for row in rows], [site.mark(entry) for entry, _ in found], executor.environment
    except StartError as error:
        if not site.label:
            raise
        rows = [site.failed(case, error) for case in cases or [search.case(search.low) for search in searches]]
        for row in rows:
            progress.done(row)
        return rows, [], {}


def _environment(found: Sequence[tuple[Site, dict[str, Any]]]) -> dict[str, Any]:
    """The environment of a run: the first place's that there is, and with images each one's own under `images`."""
    first = next((environment for _, environment in found if environment), {})
    images = {site.asked: {**site.facts(), "started_by": site.shown, **environment} for site, environment in found if site.asked}
    prefixes = [site.shown for site, _ in found if site.options.where.prefix is not None]
    return {**first, **({"images": images} if images else {}), **({"started_by": prefixes[0]} if prefixes else {})}


def _search(search: Search, book: Book, diagnose: bool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """One search; the first case that fails in it is run once more to be diagnosed, as a search is too many cases to look into each."""
    entry, rows = find(search, book.judge)
    fails = [flip["first_fail"] for flip in entry["flips"]] or [row["params"][search.axis] for row in rows if failed(row["verdict"])]
    if diagnose and fails:
        (again,) = book.judge([dataclasses.replace(search.case(fails[0]), diagnose=True)])
        same = (again["id"], again["provider"], again["verdict"])
        rows = [{**row, "diagnosis": again["diagnosis"]} if (row["id"], row["provider"], row["verdict"]) == same else row for row in rows]
    return entry, rows


def _plan_hash(options: Options, cases: Sequence[Case], searches: Sequence[Search]) -> str:
    """Names what a run does: a journal is gone on with by the same run alone."""
    searched = [[s.case_file.name, s.provider, s.axis, s.low, s.high, s.at] for s in searches]
    where = [] if options.where.here else [options.where.again()]
    plan = [[case.request() for case in cases], searched, options.device, options.sanitizer_off, kvcheck.__version__, *where]
    return journals.plan_hash(plan)
