"""What `kvcheck list cases` shows."""

from __future__ import annotations

from dataclasses import dataclass

from kvcheck.cases import builtin, sweep
from kvcheck.cases.errors import CaseFileError
from kvcheck.cases.load import load


@dataclass(frozen=True)
class Entry:
    """One built-in case file.

    Attributes:
        ref: what names the file on the command line.
        name: the prefix of its case ids.
        points: a provider; None where the file has a fault.
        fault: the first fault, or None.
    """

    ref: str
    name: str
    path: str
    line: int
    op: str = ""
    why: str = ""
    points: int | None = None
    providers: tuple[str, ...] = ()
    fault: str | None = None


def entries() -> list[Entry]:
    """The built-in case files, one entry a document, by name; the template is not one of them."""
    listed = []
    for ref in builtin.names():
        if ref.rsplit("/", 1)[-1].startswith("_"):
            continue
        path = builtin.root() / f"{ref}.yaml"
        try:
            for case_file in load(path, ref):
                points = len(sweep.expand(case_file, str(path)).points)
                about = (case_file.op, case_file.why, points, case_file.providers)
                listed.append(Entry(ref, case_file.name, str(path), case_file.line, *about))
        except CaseFileError as error:
            listed.append(Entry(ref, ref, str(path), error.faults[0].line or 1, fault=str(error.faults[0])))
    return listed
