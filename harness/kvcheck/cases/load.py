"""Case files from disk to CaseFile, every fault of a file at once."""

from __future__ import annotations

from pathlib import Path

from kvcheck.cases import combos
from kvcheck.cases.errors import CaseFileError, Fault
from kvcheck.cases.model import CaseFile
from kvcheck.cases.resolve import resolve
from kvcheck.cases.text import MAX_BYTES, parse


def load(path: Path | str, ref: str | None = None) -> list[CaseFile]:
    """The case files in one YAML file, one a document.

    Args:
        path: the file.
        ref: what names it on the command line and in messages; the path when None.

    Raises:
        CaseFileError: everything that is wrong with the file, impossible combinations included.
    """
    parsed, faults = read(path, ref)
    for case_file, broken in parsed:
        faults += combos.check(case_file, str(path), broken)
    if faults:
        raise CaseFileError(sorted(faults, key=_position))
    return [case_file for case_file, _ in parsed]


def read(path: Path | str, ref: str | None = None) -> tuple[list[tuple[CaseFile, frozenset[str]]], list[Fault]]:
    """The case files of a YAML file with the axes that are not to be trusted, and the faults of names and single values."""
    file = str(path)
    try:
        with open(path, "rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        return [], [Fault(file, None, "", "a readable case file", getattr(error, "strerror", None) or str(error))]
    documents, faults = parse(raw, file)
    parsed: list[tuple[CaseFile, frozenset[str]]] = []
    named: dict[str, int] = {}
    for document in documents:
        case_file, found, broken = resolve(document, ref or file, file)
        faults += found
        if case_file is None:
            continue
        name, line = case_file.name, document.line_of("name")
        if name in named and "name" in document.data:
            faults.append(Fault(file, line, "name", f"a name for each document (line {named[name]} has it already)", repr(name)))
        named.setdefault(name, line)
        parsed.append((case_file, broken))
    return parsed, faults


def _position(fault: Fault) -> tuple[int, str]:
    return (fault.line or 0, fault.key)
