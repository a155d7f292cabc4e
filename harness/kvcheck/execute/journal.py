"""What a run has judged so far, on disk after every case: an interrupted run goes on where it was."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
from pathlib import Path
from typing import Any, Protocol

from kvcheck.cases.model import Case
from kvcheck.execute.errors import JournalError

FORMAT = 1
NAME = "journal.jsonl"


def plan_hash(plan: Any) -> str:
    """Names a plan: the same for the same JSON-like value, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(plan, sort_keys=True, default=str).encode()).hexdigest()[:16]


def key(case: Case, place: str = "") -> str:
    """Names a case in a journal: id, provider, seed and everything else that its verdict depends on, such as the image it ran in."""
    return plan_hash([case.request(), place] if place else case.request())


class Rows(Protocol):
    """What an executor keeps rows in."""

    def get(self, case: Case) -> dict[str, Any] | None:
        """The row of a case that was judged."""

    def add(self, case: Case, row: dict[str, Any]) -> None:
        """Keeps one row."""


class Part:
    """The rows of a journal that are one place's.

    Args:
        journal: of the run.
        place: what goes by another name than every other place of the run, such as an image's id.
    """

    def __init__(self, journal: Journal, place: str) -> None:
        self._journal = journal
        self._place = place

    def get(self, case: Case) -> dict[str, Any] | None:
        """The row of a case that was judged there."""
        return self._journal.get(case, self._place)

    def add(self, case: Case, row: dict[str, Any]) -> None:
        """Writes one row."""
        self._journal.add(case, row, self._place)


class Journal:
    """Rows by case, appended and flushed to the disk one by one.

    Line 1: {"journal": 1, "plan": hash}. Every other line: {"key", "row"}; of two lines with one key the later counts.

    Args:
        path: the file; made when it is not there.
        plan: the hash of what the run is going to do.
        resume: whether to go on with a journal that is there.

    Raises:
        JournalError: it is there without `resume`, is another plan's, is in use by another run, or is damaged.
    """

    def __init__(self, path: Path, plan: str, resume: bool = False) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._rows: dict[str, dict[str, Any]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._claim()
            self._read(plan, resume)
        except BaseException:
            os.close(self._file)
            raise

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, case: Case, place: str = "") -> dict[str, Any] | None:
        """The row of a case that was judged; None for one that was not, or that the harness failed at."""
        row = self._rows.get(key(case, place))
        return None if row is None or row["verdict"] == "harness_error" else row

    def add(self, case: Case, row: dict[str, Any], place: str = "") -> None:
        """Writes one row; it is on the disk when this returns."""
        name = key(case, place)
        with self._lock:
            self._append({"key": name, "row": row})
            self._rows[name] = row

    def close(self) -> None:
        """Lets go of the file; a second time does nothing."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def _claim(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalError(f"{self.path} is in use by another run") from None

    def _read(self, plan: str, resume: bool) -> None:
        with open(self.path, "rb") as file:
            data = file.read()
        whole = data.rfind(b"\n") + 1
        if whole == 0:
            os.ftruncate(self._file, 0)
            self._append({"journal": FORMAT, "plan": plan})
            return
        if not resume:
            raise JournalError(f"{self.path} holds a run already; expected a new folder, or --resume to go on with it")
        lines = [self._line(number, line) for number, line in enumerate(data[:whole].splitlines(), start=1)]
        if lines[0].get("journal") != FORMAT:
            raise JournalError(f"{self.path} is not a journal of this version: expected format {FORMAT}, got {lines[0].get('journal')!r}")
        if lines[0].get("plan") != plan:
            raise JournalError(f"{self.path} is the journal of another plan: run the same cases, providers and options to resume it")
        self._rows = {line["key"]: line["row"] for line in lines[1:]}
        # The run ended while it wrote its last line: that case was not judged.
        os.ftruncate(self._file, whole)

    def _line(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            entry = json.loads(line)
            if number == 1 or (isinstance(entry["key"], str) and isinstance(entry["row"]["verdict"], str)):
                return dict(entry)
        except (ValueError, KeyError, TypeError):
            pass
        raise JournalError(f"{self.path}:{number} is damaged; expected one JSON object a line with key and row")

    def _append(self, entry: dict[str, Any]) -> None:
        data = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        if os.write(self._file, data) != len(data):
            raise OSError(f"{self.path} could not be written whole: is the disk full?")
        os.fsync(self._file)
