"""`kvcheck bisect`: walks a target's range to the change that brought a fault in, or took it away."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kvcheck
from kvcheck.agent.specs import nearest
from kvcheck.flow import bisect_ending, bisect_state
from kvcheck.flow.bisect_options import FORMATS, BisectOptions
from kvcheck.flow.bisect_state import DiskFull, State
from kvcheck.flow.bisect_steps import asked, cases_of
from kvcheck.flow.bisect_walk import Walk
from kvcheck.flow.options import NothingJudged, UsageError, check_device, check_sanitizer
from kvcheck.flow.outcome import NOTHING_JUDGED, PASSED
from kvcheck.report import bisect as report
from kvcheck.report import bisect_plan
from kvcheck.report.words.masking import masked
from kvcheck.search import bisect as search
from kvcheck.search import bisect_found
from kvcheck.targets.base import RangeError, Target


def bisect(target: Target, options: BisectOptions) -> int:
    """Finds the two neighbours of a range between which a fault comes in or goes, and says so.

    Args:
        target: the range.
        options: what is run in each step, and how sure an answer has to be.

    Returns:
        code: 0 where a boundary was found and both its neighbours answered alike when run again; 3 where not, with why.

    Raises:
        CaseFileError, UsageError: the command line, a case file or the range cannot be followed.
        NothingJudged: no case was selected, or the disk is full; the state is whole.
    """
    _check(options)
    try:
        if options.dry_run:
            return _show_plan(target, options)
        folder = bisect_state.make_folder(options, target.kind)
        with bisect_state.alone(folder), bisect_state.on_a_full_disk(folder):
            state = _resumed(target, options, folder) if options.run.resume else _begun(target, options, folder)
            return _carry_out(target, options, state)
    except RangeError as error:
        raise UsageError(str(error)) from error
    except DiskFull as error:
        raise NothingJudged(str(error)) from error
    finally:
        target.close()


def _carry_out(target: Target, options: BisectOptions, state: State) -> int:
    def say(text: str) -> None:
        if not options.run.quiet:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

    with _told_how_to_go_on(state.folder):
        if not (state.data["result"] and state.data["result"]["outcome"] == bisect_found.FOUND):
            walk = Walk(target, options, state, say)
            keys = [candidate.key for candidate in state.candidates]
            found = search.bisect(walk.ask, keys, find=options.find, runs=options.runs, unknown_limit=options.unknown_limit)
            bisect_ending.conclude(target, options, state, found, walk)
        if options.deep:
            bisect_ending.look_deeper(state, say, options.run.quiet)
        text = report.render(masked(state.data, public=True) if options.run.mask else state.data)
        (state.folder / "report.md").write_text(text, encoding="utf-8")
    for form in options.formats:
        sys.stdout.write(text if form == "markdown" else report.render_json(state.data))
    if "markdown" in options.formats:
        sys.stdout.write(f"\n{state.folder}: {bisect_state.NAME}, report.md, a run folder for each step in steps/\n")
    return PASSED if state.data["result"]["outcome"] == bisect_found.FOUND else NOTHING_JUDGED


def _check(options: BisectOptions) -> None:
    """Refuses what cannot be before anything is made.

    Raises:
        CaseFileError, UsageError, NothingJudged
    """
    if options.find not in ("regression", "fix"):
        near = nearest(options.find, ("regression", "fix"))
        raise UsageError(f"--find: expected regression or fix, got {options.find!r}; nearest: {near}")
    for form in options.formats:
        if form not in FORMATS:
            raise UsageError(f"--format: expected {', '.join(FORMATS)}, got {form!r}; nearest: {nearest(form, FORMATS)}")
    if options.run.shard:
        raise UsageError("--shard: expected none: every step of a bisect runs the same cases")
    check_device(options.run.device)
    check_sanitizer(options.run.sanitizer_off, options.run.device)
    cases_of(options)


def _begun(target: Target, options: BisectOptions, folder: Path) -> State:
    """The state of a bisect that begins, on disk.

    Raises:
        RangeError: the range cannot be walked. Whatever was raised, OUT is gone again.
    """
    try:
        _open(target, folder)
        state = bisect_state.fresh(folder, target.kind, options, _listed(target), target.notes(), kvcheck.__version__)
        state.save()
        return state
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)  # it was new or empty
        raise


def _resumed(target: Target, options: BisectOptions, folder: Path) -> State:
    """The state of a bisect that is gone on with.

    Raises:
        UsageError: what is there is another bisect.
    """
    state = bisect_state.read(folder)
    for name, wanted in (("kind", target.kind), ("find", options.find)):
        if state.data.get(name) != wanted:
            raise UsageError(f"--resume: {folder} holds a bisect with {name} {state.data.get(name)!r}, this command has {wanted!r}")
    if state.data["result"] and state.data["result"]["outcome"] != bisect_found.FOUND:
        state.drop_unknown()
        state.data["result"] = None
    stale = {step["asked"] for step in state.data["steps"]} - {asked(options)}
    if stale and not state.data["result"]:
        state.data["notes"] = [note for note in state.data["notes"] if note != STALE] + [STALE]
    state.data["runs"] = options.runs
    words = bisect_state.plain_words(options.run.words)
    if words != bisect_state.plain_words(state.data["words"]):
        state.data.update(words=words, cwd=str(Path.cwd()))
    _open(target, folder)
    restore = getattr(target, "restore", None)
    if restore:
        restore(state.candidates)
    return state


STALE = "Answers to other cases or options, or of another kvcheck, are kept in steps/ and were not used."


def _show_plan(target: Target, options: BisectOptions) -> int:
    candidates = _listed(target)
    plan = {
        "kind": target.kind,
        "find": options.find,
        "runs": options.runs,
        "cases": list(cases_of(options)),
        "candidates": [vars(candidate) for candidate in candidates],
        "first": [0, len(candidates) - 1, (len(candidates) - 1) // 2] if len(candidates) > 2 else [0, 1],
        "steps": search.steps_of(len({candidate.key for candidate in candidates})),
        "notes": list(target.notes()),
        "takes": dict(target.plan()),
    }
    sys.stdout.write(report.render_json(plan) if "json" in options.formats else bisect_plan.render(plan))
    return PASSED


def _listed(target: Target) -> list[Any]:
    candidates = list(target.candidates())
    if len(candidates) < 2:
        raise RangeError(f"expected a range with two ends, got {len(candidates)} candidates")
    return candidates


def _open(target: Target, folder: Path) -> None:
    opened = getattr(target, "open", None)
    if opened:
        opened(folder)


@contextlib.contextmanager
def _told_how_to_go_on(folder: Path) -> Iterator[None]:
    """Says how to go on where the user stops it."""
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write(f"\ngo on with: kvcheck bisect resume {folder}\n")
        raise
