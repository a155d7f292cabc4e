"""`kvcheck agent`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kvcheck.cli.common import command

app = typer.Typer(help="The part that runs beside the kernel.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def group() -> None:
    """The part that runs beside the kernel: one zip file, standard library and torch only."""


@app.command("build")
@command
def build(out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write the zip.")] = Path("kvcheck-agent.zip")) -> None:
    """Writes the agent as one zip file that any Python with torch runs."""
    from kvcheck.flow.agent import build as flow

    typer.echo(flow(out))
