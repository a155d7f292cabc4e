"""`kvcheck selftest`."""

from __future__ import annotations

import json
from typing import Annotated, Optional

import typer

from kvcheck.cli import options as o
from kvcheck.cli.common import command, print_text


@command
def selftest(
    quick: Annotated[bool, typer.Option("--quick", help="A sample of the mutants: under a minute on two cores.")] = False,
    only: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer reads this on Python 3.10 too
        typer.Option("--only", metavar="NAME", help="A fault, an op, or a file of kernels; repeatable."),
    ] = None,
    device: o.Device = "cpu",
    python: o.Python = None,
    seed: o.Seed = None,
    jobs: o.Jobs = None,
    out: Annotated[o.Out.__origin__, typer.Option("--out", metavar="DIR", help="Folder that gets selftest.json.")] = None,
    format_: Annotated[str, typer.Option("--format", metavar="table|json", help="Text, or JSON.")] = "table",
    quiet: o.Quiet = False,
) -> int:
    """Plants faults in kernels and reports which checks catch them, and that honest kernels pass."""
    from kvcheck.flow.selftest import Request, selftest
    from kvcheck.report.selftest import render

    report, code = selftest(
        Request(
            quick=quick,
            device=device,
            python=python,
            jobs=jobs,
            seed=seed or 0,
            only=tuple(only or ()),
            out=out,
            form=format_,
            quiet=quiet,
        )
    )
    print_text(json.dumps(report, indent=1, allow_nan=False) if format_ == "json" else render(report))
    return code
