"""What a bisect knows, on disk before and after every step: whatever ends it, it goes on from there.

`OUT/bisect.json` is written whole or not at all. A step that was running is in `running` and not among `steps`: it is run again.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvcheck.flow.bisect_options import BisectOptions
from kvcheck.flow.options import UsageError
from kvcheck.search.bisect_evidence import Evidence, Result, says_nothing
from kvcheck.targets.base import Candidate

SCHEMA = "kvcheck.bisect/1"
NAME = "bisect.json"
FULL = (errno.ENOSPC, errno.EDQUOT)


class DiskFull(Exception):
    """Nothing more can be written; what was written before is whole. The text is for the user, the exit code is 3."""


class State:
    """A bisect on disk.

    Args:
        folder: OUT, made already.
        data: what bisect.json holds.

    Attributes:
        folder: OUT.
        data: keys: schema, kvcheck, kind, words, cwd, started, find, runs, candidates, notes, device, running, steps, result.
    """

    def __init__(self, folder: Path, data: dict[str, Any]) -> None:
        self.folder, self.data = folder, data

    @property
    def candidates(self) -> list[Candidate]:
        """Every candidate, in order."""
        return [Candidate(**{**entry, "names": tuple(entry["names"])}) for entry in self.data["candidates"]]

    def save(self) -> None:
        """Writes bisect.json.

        Raises:
            DiskFull: it could not be written; the file is as it was.
        """
        part = self.folder / f"{NAME}.part"
        with on_a_full_disk(self.folder):
            try:
                with open(part, "w", encoding="utf-8") as file:
                    json.dump(self.data, file, indent=1)
                    file.write("\n")
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(self.folder / NAME)
            except OSError:
                with contextlib.suppress(OSError):
                    part.unlink()
                raise

    def begin(self, step: dict[str, Any]) -> None:
        """Notes the step that is about to run."""
        self.data["running"] = step
        self.save()

    def finish(self, step: dict[str, Any]) -> None:
        """Notes a step that was run."""
        self.data["running"] = None
        self.data["steps"].append(step)
        self.save()

    def answered(self, key: str, asked: str, again: bool) -> dict[str, Any] | None:
        """The step that answers a candidate already.

        Args:
            key: of the candidate.
            asked: what was asked of it: cases, options, version.
            again: whether it is asked for a second time, as a neighbour of the boundary.
        """
        for step in reversed(self.data["steps"]):
            if (step["key"], step["asked"], step["why"] == "again") == (key, asked, again) and not step.get("dropped"):
                return step
        return None

    def same_contents(self, contents: str, asked: str) -> dict[str, Any] | None:
        """A step of another candidate that holds the same packages and was judged."""
        for step in self.data["steps"]:
            same = step["facts"].get("contents_key") == contents and step["asked"] == asked and step["why"] != "again"
            if same and step["kind"] != "unknown" and not any(map(says_nothing, evidence(step))) and not step.get("dropped"):
                return step
        return None

    def drop_unknown(self) -> int:
        """Sets answers that said nothing aside, so that they are asked for again.

        Returns:
            dropped: how many.
        """
        dropped = [step for step in self.data["steps"] if step["kind"] == "unknown" and not step.get("dropped")]
        for step in dropped:
            step["dropped"] = True
        return len(dropped)


def evidence(step: dict[str, Any]) -> list[Evidence]:
    """The runs of a stored step."""
    return [
        {probe: Result(entry["kind"], _tuple(entry.get("identity")), entry.get("reason", "")) for probe, entry in run.items()}
        for run in step["runs"]
    ]


def stored(runs: Sequence[Evidence]) -> list[dict[str, Any]]:
    """Runs as a step stores them."""
    return [
        {
            probe: {key: value for key, value in (("kind", r.kind), ("identity", r.identity), ("reason", r.reason)) if value}
            for probe, r in run.items()
        }
        for run in runs
    ]


def fresh(folder: Path, kind: str, options: BisectOptions, candidates: Sequence[Candidate], notes: Sequence[str], version: str) -> State:
    """The state of a bisect that begins; nothing is written yet."""
    data = {
        "schema": SCHEMA,
        "kvcheck": version,
        "kind": kind,
        "words": list(options.run.words),
        "cwd": os.getcwd(),
        "started": now(),
        "find": options.find,
        "runs": options.runs,
        "candidates": [{"key": c.key, "label": c.label, "date": c.date, "names": list(c.names), "variant": c.variant} for c in candidates],
        "notes": list(notes),
        "device": None,
        "running": None,
        "steps": [],
        "result": None,
    }
    return State(folder, data)


def read(folder: Path) -> State:
    """The bisect in a folder.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    file = folder / NAME
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"OUT: expected a folder that holds a {NAME}, got {folder} ({error})") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise UsageError(f"OUT: expected a {NAME} of schema {SCHEMA}, got {data.get('schema') if isinstance(data, dict) else data!r}")
    return State(folder, data)


def make_folder(options: BisectOptions, kind: str) -> Path:
    """OUT, made; the one that is there where a bisect is gone on with.

    Raises:
        UsageError: it holds something already, there is nothing to go on with, or it cannot be made.
    """
    path = options.run.out
    if path is None:
        stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        path, turn = Path("reports") / f"bisect-{kind}-{stamp}", 1
        while path.exists():
            turn += 1
            path = Path("reports") / f"bisect-{kind}-{stamp}-{turn}"
    if options.run.resume and not (path / NAME).is_file():
        raise UsageError(f"--resume: expected a folder with a bisect that was begun, got {path} without a {NAME}")
    if not options.run.resume and path.is_dir() and any(path.iterdir()):
        raise UsageError(f"--out: expected a new or empty folder, got {path}; go on with what is there: kvcheck bisect resume {path}")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out: cannot make {path}: {error.strerror}") from error
    return path


@contextlib.contextmanager
def alone(folder: Path):
    """While inside, no other kvcheck works on this bisect.

    Raises:
        UsageError: another one does.
    """
    file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{folder} is in use by another kvcheck bisect") from None
        yield
    finally:
        os.close(file)


@contextlib.contextmanager
def on_a_full_disk(folder: Path):
    """Turns a full disk into a message.

    Raises:
        DiskFull: no space was left inside.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        where = f" ({error.filename})" if error.filename else ""
        raise DiskFull(
            f"the disk is full{where}: what was found is safe in {folder}; make room and go on: kvcheck bisect resume {folder}"
        ) from error


def place_of_step(number: int, label: str) -> str:
    """Name of a step's folder: `03-nightly-0412`."""
    return f"{number:02d}-{re.sub(r'[^A-Za-z0-9_.+-]+', '-', label).strip('-.')[:60] or 'candidate'}"


def now() -> str:
    """The time, for the state and the report."""
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def resume_words(data: dict[str, Any], folder: Path) -> list[str]:
    """The command line that goes on with a bisect: the one it began with, its own --out and --resume instead of any that it had."""
    words = plain_words(data["words"])
    end = words.index("--") if "--" in words else len(words)
    return [*words[:end], "--out", str(folder.resolve()), "--resume", *words[end:]]


def plain_words(words: Sequence[str]) -> list[str]:
    """A command line without where it works and how far it was: no --out, --resume, --dry-run."""
    end = list(words).index("--") if "--" in words else len(words)
    kept: list[str] = []
    skip = False
    for word in words[:end]:
        if skip:
            skip = False
        elif word == "--out":
            skip = True
        elif word not in ("--resume", "--dry-run") and not word.startswith("--out="):
            kept.append(word)
    return [*kept, *words[end:]]


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
