"""A run as `run.json` holds it, and the files that a run leaves."""

from __future__ import annotations

import datetime
import os
import sys
from pathlib import Path
from typing import Any

from kvcheck.cases.known import Known
from kvcheck.flow.known import apply
from kvcheck.flow.options import Options, UsageError
from kvcheck.flow.outcome import exit_code
from kvcheck.report.words.masking import masked

SCHEMA = "kvcheck.run/1"
FILES = (("run.json", "json"), ("results.csv", "csv"), ("report.md", "markdown"))
PAGE = ("report.html", "html")


def folder(options: Options, name: str) -> Path:
    """The run's folder, made.

    Args:
        options: `out` or a fresh folder under reports/.
        name: what the fresh one is called after.

    Raises:
        UsageError: the folder holds a run, and `resume` is not set; or there is none to resume.
    """
    if options.out is None:
        stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        base = Path("reports") / f"{name}-{stamp}"
        path, turn = base, 1
        while path.exists():
            turn += 1
            path = base.with_name(f"{base.name}-{turn}")
    else:
        path = options.out
        if options.resume and not (path / "journal.jsonl").is_file():
            raise UsageError(f"--resume: expected a folder with an unfinished or finished run, got {path} without a journal.jsonl")
        if not options.resume and path.is_dir() and any(path.iterdir()):
            raise UsageError(f"--out: expected a new or empty folder, got {path}; go on with what is there: --resume")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out: cannot make {path}: {error.strerror}") from error
    return path


def compose(
    options: Options,
    started: datetime.datetime,
    wall_s: float,
    environment: dict[str, Any],
    rows: list[dict[str, Any]],
    thresholds: list[dict[str, Any]],
    name: str,
    seed: int,
    listed: tuple[Known, ...] = (),
) -> dict[str, Any]:
    """The content of `run.json` (CONTRACT: What a run leaves), masked unless the options say otherwise; `listed` are known failures."""
    counts: dict[str, int] = {}
    for row in rows:
        counts[row["verdict"]] = counts.get(row["verdict"], 0) + 1
    content = {
        "schema": SCHEMA,
        "run": {
            "id": f"{name}-{started.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}",
            "started": started.astimezone().isoformat(timespec="seconds"),
            "wall_s": round(wall_s, 3),
            "command": options.command,
            "case_files": list(options.cases),
            "seed": seed,
            "verdict_counts": dict(sorted(counts.items())),
            "exit_code": exit_code(row["verdict"] for row in rows),
            "masked": options.mask,
        },
        "environment": environment,
        "cases": rows,
        "thresholds": thresholds,
    }
    content = apply(_lifted(content), listed)
    return masked(content) if options.mask else content


def _lifted(run: dict[str, Any]) -> dict[str, Any]:
    """What agents saw while they ran belongs to the environment: rows are the same whichever agent had them first."""
    modules: dict[str, set[str]] = {}
    files: dict[str, set[str]] = {}
    git = dict(run["environment"].get("git") or {})
    rows = []
    for row in run["cases"]:
        seen = row.get("seen")
        if not seen:
            rows.append(row)
            continue
        for name, digest in (seen.get("modules") or {}).items():
            modules.setdefault(name, set()).add(digest)
        if seen.get("source"):
            git[row["provider"]] = seen["source"]
        if seen.get("file"):
            files.setdefault(row["provider"], set()).add(seen["file"])
        rows.append({key: value for key, value in row.items() if key != "seen"})
    told = {"files": files, "modules": modules}
    hashes = {kind: {name: ", ".join(sorted(known)) for name, known in sorted(found.items())} for kind, found in told.items() if found}
    return {**run, "environment": {**run["environment"], **({"git": git} if git else {}), **hashes}, "cases": rows}


def write(run: dict[str, Any], path: Path) -> list[str]:
    """Writes `run.json`, `results.csv` and `report.md`, each whole or not at all; their names."""
    for file, form in FILES:
        _write(run, path / file, form)
    return [file for file, _ in FILES]


def write_page(run: dict[str, Any], path: Path) -> list[str]:
    """Writes `report.html`, where its pictures can be drawn; its name. It is there to look at: no run is lost for it."""
    file, form = PAGE
    try:
        _write(run, path / file, form)
    except ImportError as error:
        sys.stderr.write(f"{path / file} was not written: {error}\n")
        return []
    return [file]


def _write(run: dict[str, Any], target: Path, form: str) -> None:
    from kvcheck.flow.render import render

    part = target.with_suffix(target.suffix + ".part")
    part.write_text(render(run, form), encoding="utf-8")
    part.replace(target)
