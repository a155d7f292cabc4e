"""Report formats by name."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

from kvcheck.agent.specs import nearest
from kvcheck.flow.options import UsageError
from kvcheck.report.words import choose
from kvcheck.report.words.masking import masked

ALL = ("table", "markdown", "github", "html", "json", "csv", "junit")
FORMATS = tuple(name for name in ALL if (Path(__file__).parents[1] / "report" / f"{name}.py").is_file())
"""One file of report/ each: a format whose file is taken away is no format any more."""

DATA = frozenset({"json", "csv"})
"""Formats that stay usable as run.json is: names in commands are left."""


def check(formats: tuple[str, ...]) -> None:
    """Refuses formats there are none of.

    Raises:
        UsageError: with the nearest name.
    """
    for name in formats:
        if name not in FORMATS:
            raise UsageError(f"--format: expected {', '.join(FORMATS)}, got {name!r}; nearest: {nearest(name, FORMATS)}")


def render(run: dict[str, Any], form: str) -> str:
    """A run in one format; user and host names go from commands too where it is for others to read, unless `run.masked` is false."""
    if form == "github":
        run = with_script(run)
    if form not in DATA and (run.get("run") or {}).get("masked", True):
        run = masked(run, public=True)
    return importlib.import_module(f"kvcheck.report.{form}").render(run)


def with_script(run: dict[str, Any]) -> dict[str, Any]:
    """The run with `repro_script` in the row that a report shows in full: a script of its own, where one can be written."""
    row = choose.first(run)
    if row is None or row.get("repro_script"):
        return run
    try:
        script = importlib.import_module("kvcheck.flow.repro").text_for(run, row)
    except Exception:
        return run  # no script for this op or provider: the report has the command
    return {**run, "cases": [{**each, "repro_script": script} if each is row else each for each in run["cases"]]}


def read(path: Path, option: str = "RUN") -> dict[str, Any]:
    """The run in a folder, or in a run.json.

    Args:
        path: of either.
        option: what named it.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    file = path / "run.json" if path.is_dir() else path
    try:
        run = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{option}: expected a folder that holds a run.json, got {path} ({error})") from error
    if not isinstance(run, dict) or run.get("schema") != "kvcheck.run/1":
        got = run.get("schema") if isinstance(run, dict) else type(run).__name__
        raise UsageError(f"{option}: expected schema kvcheck.run/1, got {got!r}")
    return run
