"""A list of known failures: which case fails in which way, why that is known, and where it is tracked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kvcheck.agent.protocol import VERDICTS, failed
from kvcheck.agent.specs import nearest
from kvcheck.cases.errors import CaseFileError, Fault, quote
from kvcheck.cases.text import MAX_BYTES, Document, parse

FAILING = tuple(verdict for verdict in VERDICTS if failed(verdict))
LINK = r"^(https?://\S+|[A-Za-z0-9][\w.-]*/[\w.-]+#\d+)$"
ENTRY = "an entry: case, provider, verdict, reason, link"


class _Shape(BaseModel):
    """The keys of an entry."""

    model_config = ConfigDict(extra="forbid", strict=True)

    case: Annotated[str, Field(min_length=1, description="an id of a case, or a pattern with * and ?")]
    provider: Annotated[str, Field(min_length=1, description="a provider, or a pattern with * and ?")]
    verdict: Annotated[str, Field(pattern=f"^({'|'.join(FAILING)})$", description=f"one of {', '.join(FAILING)}")]
    reason: Annotated[str, Field(pattern=r"\S.*\S", description="a sentence: why this fails")]
    link: Annotated[str, Field(pattern=LINK, description="where it is tracked: an http address or OWNER/REPO#N")]
    output: Annotated[str | None, Field(description="the output that is wrong")] = None
    check: Annotated[str | None, Field(description="the check that fails")] = None
    device: Annotated[str | None, Field(description="the type or the name of a device, or a pattern with * and ?")] = None
    arch: Annotated[str | None, Field(description="an architecture such as gfx942, or a pattern with * and ?")] = None
    may_pass: Annotated[bool, Field(description="true for a failure that comes and goes, else false")] = False


@dataclass(frozen=True)
class Known:
    """One known failure.

    Args:
        file, line: where it stands.
        case, provider: an id and a name, or patterns: `*` is any text, `?` any character, brackets are themselves.
        verdict, output, check: the way it fails; None is any.
        reason, link: what a reader is told.
        device, arch: where it is known; None is everywhere.
        may_pass: it comes and goes: a pass is no news.
    """

    file: str
    line: int
    case: str
    provider: str
    verdict: str
    reason: str
    link: str
    output: str | None = None
    check: str | None = None
    device: str | None = None
    arch: str | None = None
    may_pass: bool = False

    def names(self, case: str, provider: str) -> bool:
        """Whether a row is one of those that the entry speaks of."""
        return _like(self.case, case) and _like(self.provider, provider)

    def here(self, device: dict[str, Any]) -> bool:
        """Whether the entry holds on a device, run.json's `environment.device`."""
        kinds = (str(device.get("type")), str(device.get("name")))
        return (self.device is None or any(_like(self.device, kind) for kind in kinds)) and (
            self.arch is None or _like(self.arch, str(device.get("arch")))
        )

    def fails_so(self, verdict: str, output: str | None, check: str | None) -> bool:
        """Whether a failure is this one: verdict, and output and check where the entry names them."""
        return verdict == self.verdict and self.output in (None, output) and self.check in (None, check)


def load(path: Path | str) -> tuple[Known, ...]:
    """The entries of a YAML list.

    Args:
        path: the file.

    Raises:
        CaseFileError: everything that is wrong with it.
    """
    file = str(path)
    try:
        with open(path, "rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        got = getattr(error, "strerror", None) or str(error)
        raise CaseFileError([Fault(file, None, "", "a readable list of known failures", got)]) from error
    documents, faults = parse(raw, file, "a list of known failures", listed=True)
    entries: list[Known] = []
    for document in documents:
        for index, item in enumerate(document.data["entries"]):
            found, wrong = _entry(document, index, item)
            faults += wrong
            same = next((each for each in entries if found and _key(each) == _key(found)), None)
            if found and same:
                faults.append(Fault(file, found.line, f"[{index}]", f"each failure once (first on line {same.line})", "it again"))
            elif found:
                entries.append(found)
    if faults:
        raise CaseFileError(sorted(faults, key=lambda fault: (fault.line or 0, fault.key)))
    return tuple(entries)


def _entry(document: Document, index: int, item: Any) -> tuple[Known | None, list[Fault]]:
    path, file = ("entries", index), document.file
    line, key = document.line_of(*path), f"[{index}]"
    if not isinstance(item, dict):
        return None, [Fault(file, line, key, ENTRY, quote(item))]
    try:
        shape = _Shape.model_validate(item)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
    else:
        return Known(file, line, **shape.model_dump()), []
    faults = []
    for each in found:
        name = str(each["loc"][0])
        at, full = document.line_of(*path, name), f"{key}.{name}"
        if each["type"] == "extra_forbidden":
            known = tuple(_Shape.model_fields)
            faults.append(Fault(file, at, full, "one of " + ", ".join(known), name, nearest(name, known)))
            continue
        expected = str(_Shape.model_fields[name].description)
        got = "no such key" if each["type"] == "missing" else quote(item[name])
        near = nearest(str(item[name]), FAILING) if name == "verdict" and name in item else None
        faults.append(Fault(file, at, full, expected, got, near))
    return None, faults


def _key(entry: Known) -> tuple[Any, ...]:
    return (entry.case, entry.provider, entry.verdict, entry.output, entry.check, entry.device, entry.arch)


@lru_cache(maxsize=1024)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile("".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in text), re.DOTALL)


def _like(pattern: str, text: str) -> bool:
    return bool(_pattern(pattern).fullmatch(text))
