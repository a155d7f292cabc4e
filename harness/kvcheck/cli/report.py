"""`kvcheck report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from kvcheck.cli import options as o
from kvcheck.cli.common import command

OutFile = Annotated[Optional[Path], typer.Option("--out", metavar="FILE", help="Writes the report there instead of printing it.")]  # noqa: UP045


@command
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run, or its run.json.")],
    format_: o.Format = None,
    out: OutFile = None,
    known: o.Known = None,
    no_mask: o.NoMask = False,
    post: Annotated[
        Optional[str],  # noqa: UP045 - typer reads this on Python 3.10 too
        typer.Option("--post", metavar="OWNER/REPO#N", help="Posts the github format there with gh, after showing it and asking."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Posts without asking.")] = False,
) -> None:
    """Renders a finished run."""
    from kvcheck.flow import report as flow

    formats = tuple(format_ or (("github",) if post else ("table",)))
    flow.report(flow.Request(run, formats, out, tuple(known or ()), mask=not no_mask, post=post, yes=yes))
