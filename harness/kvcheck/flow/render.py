"""Report formats by name."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

from kvcheck.agent.specs import nearest
from kvcheck.flow.options import UsageError

FORMATS = ("table", "markdown", "json", "csv")


def check(formats: tuple[str, ...]) -> None:
    """Refuses formats there are none of.

    Raises:
        UsageError: with the nearest name.
    """
    for name in formats:
        if name not in FORMATS:
            raise UsageError(f"--format: expected {', '.join(FORMATS)}, got {name!r}; nearest: {nearest(name, FORMATS)}")


def render(run: dict[str, Any], form: str) -> str:
    """A run in one format."""
    return importlib.import_module(f"kvcheck.report.{form}").render(run)


def read(path: Path) -> dict[str, Any]:
    """The run in a folder, or in a run.json.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    file = path / "run.json" if path.is_dir() else path
    try:
        run = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"RUN: expected a folder that holds a run.json, got {path} ({error})") from error
    if not isinstance(run, dict) or run.get("schema") != "kvcheck.run/1":
        raise UsageError(f"RUN: expected schema kvcheck.run/1, got {run.get('schema') if isinstance(run, dict) else type(run).__name__!r}")
    return run
