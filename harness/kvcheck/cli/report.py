"""`kvcheck report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kvcheck.cli import options as o
from kvcheck.cli.common import command, print_text


@command
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run, or its run.json.")],
    format_: o.Format = None,
) -> None:
    """Renders a finished run."""
    from kvcheck.flow import render

    formats = tuple(format_ or ("table",))
    render.check(formats)
    content = render.read(run)
    for form in formats:
        print_text(render.render(content, form))
