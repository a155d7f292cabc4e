"""`kvcheck compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from kvcheck.cli import options as o
from kvcheck.cli.common import command, words


@command
def compare(
    what: Annotated[list[str], typer.Argument(metavar="RUN_A RUN_B | CASE...", help="Two runs, or cases with two --provider.")],
    provider: o.Provider = None,
    drift: Annotated[float, typer.Option("--drift", metavar="FACTOR", help="Change of max_bound_ratio that is told.")] = 4.0,
    known: o.Known = None,
    format_: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer reads this on Python 3.10 too
        typer.Option("--format", metavar="FORMAT", help="table, markdown, github, json, csv, junit; repeatable."),
    ] = None,
    write: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--write", metavar="FILE", help="Writes the comparison there instead of printing it."),
    ] = None,
    no_mask: o.NoMask = False,
    set_: o.Set = None,
    only: o.Only = None,
    device: o.Device = "auto",
    python: o.Python = None,
    seed: o.Seed = None,
    repeat: o.Repeat = None,
    fresh: o.Fresh = None,
    precision: o.Precision = None,
    timeout: o.Timeout = 120.0,
    jobs: o.Jobs = None,
    coverage: o.Coverage = None,
    out: o.Out = None,
    quiet: o.Quiet = False,
    no_threshold: Annotated[bool, typer.Option("--no-threshold", help="Leaves the file's threshold block alone.")] = False,
) -> int:
    """Says what changed between two runs, or between two providers: exits with 1 when something got worse.

    Options of a run (--set, --device, --out and so on) are for CASE with two --provider.
    """
    from kvcheck.flow import compare_runs as flow
    from kvcheck.flow.options import Options

    request = flow.Request(tuple(format_ or ("table",)), drift, tuple(known or ()), mask=not no_mask, write=write)
    if not provider:
        return flow.runs(tuple(what), request)
    options = Options(
        cases=tuple(what),
        providers=tuple(provider),
        sets=tuple(set_ or ()),
        only=tuple(only or ()),
        device=device,
        python=python,
        seed=seed,
        repeat=repeat,
        fresh=fresh,
        precision=precision,
        timeout=timeout,
        jobs=jobs,
        coverage=coverage,
        out=out,
        quiet=quiet,
        diagnose=False,
        thresholds=not no_threshold,
        words=words(),
    )
    return flow.providers(options, request)
