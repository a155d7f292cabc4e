"""From the words of a command line to the cases that will run."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from kvcheck.cases import builtin, combos, sweep
from kvcheck.cases.errors import CaseFileError, Fault, quote
from kvcheck.cases.load import read
from kvcheck.cases.model import Case, CaseFile
from kvcheck.cases.overrides import Overrides, apply

MAX_COMPARED = 500
"""Ids that a mistyped one is compared with letter by letter; more are compared axis by axis."""


@dataclass(frozen=True)
class Plan:
    """What a command runs.

    Attributes:
        case_files: under the options, in the order named.
        cases: point by point in sweep order, each for every provider of its file.
        notes: what the user should know about what was drawn, one sentence each.
    """

    case_files: tuple[CaseFile, ...]
    cases: tuple[Case, ...]
    notes: tuple[str, ...] = ()


def plan(
    texts: Sequence[str],
    options: Overrides | None = None,
    *,
    only: Sequence[str] = (),
    shard: tuple[int, int] | None = None,
    limit: int | None = None,
) -> Plan:
    """The cases of case files.

    Args:
        texts: paths, or names of built-in case files.
        options: what changes in the files.
        only: `CASE_ID` or `CASE_ID@PROVIDER` to keep.
        shard: (I, N) keeps every N-th case from the I-th, 1-based.
        limit: most points of one case file, before `only` and `shard`; None is `sweep.LIMIT`.

    Raises:
        CaseFileError: every fault of every file and option.
    """
    case_files = load_all(texts, options)
    faults: list[Fault] = []
    cases: list[Case] = []
    notes = []
    for case_file in case_files:
        try:
            drawn = sweep.expand(case_file, case_file.path, sweep.LIMIT if limit is None else limit)
        except CaseFileError as error:
            faults += error.faults
            continue
        faults += combos.points(case_file, case_file.path, drawn.points)
        cases += [case_file.case(point, provider) for point in drawn.points for provider in case_file.providers]
        if drawn.coverage != "full":
            notes.append(f"{case_file.name}: {drawn.sentence}")
    if faults:
        raise CaseFileError(faults)
    kept = select(cases, only)
    return Plan(case_files, tuple(kept[shard[0] - 1 :: shard[1]] if shard else kept), tuple(notes))


def load_all(texts: Sequence[str], options: Overrides | None = None) -> tuple[CaseFile, ...]:
    """The case files that words name, under options and without faults; a file named twice is taken once.

    Raises:
        CaseFileError: every fault of every file and option.
    """
    faults: list[Fault] = []
    loaded: list[CaseFile] = []
    taken: dict[str, str] = {}
    paths = set()
    for text in texts:
        try:
            found = builtin.find(text)
        except CaseFileError as error:
            faults += error.faults
            continue
        if found.path.resolve() in paths:
            continue
        paths.add(found.path.resolve())
        parsed, wrong = read(found.path, found.ref)
        faults += wrong
        for case_file, broken in parsed:
            changed = case_file
            try:
                changed = apply(case_file, options or Overrides())
            except CaseFileError as error:
                faults += error.faults
            faults += combos.check(changed, changed.path, broken)
            if changed.name in taken and taken[changed.name] != changed.path:
                expected = f"a name of its own ({taken[changed.name]} has it already)"
                faults.append(Fault(changed.path, changed.line, "name", expected, quote(changed.name)))
            taken[changed.name] = changed.path
            loaded.append(changed)
    if faults:
        raise CaseFileError(faults)
    return tuple(loaded)


def select(cases: Sequence[Case], only: Sequence[str]) -> list[Case]:
    """The cases that ids or rows name, in sweep order; all of them when nothing is named.

    Raises:
        CaseFileError: an id that no case has.
    """
    if not only:
        return list(cases)
    ids, rows = {case.id for case in cases}, {case.row for case in cases}
    faults = []
    for text in only:
        if text not in ids and text not in rows:
            faults.append(Fault("--only", None, "", "CASE_ID or CASE_ID@PROVIDER of this run", quote(text), _nearest(text, cases)))
    if faults:
        raise CaseFileError(faults)
    wanted = set(only)
    return [case for case in cases if case.id in wanted or case.row in wanted]


def _nearest(text: str, cases: Sequence[Case]) -> str | None:
    words = [case.row if "]@" in text else case.id for case in cases]
    words = list(dict.fromkeys(words))
    if len(words) > MAX_COMPARED:
        parts = set(re.split(r"[\[\],@]", text))
        words = sorted(words, key=lambda word: -len(parts.intersection(re.split(r"[\[\],@]", word))))[:MAX_COMPARED]
    found = difflib.get_close_matches(text, words, n=1, cutoff=0.3)
    return found[0] if found else None
