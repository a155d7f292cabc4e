"""`kvcheck vet`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Optional

import typer

from kvcheck.cli import options as o
from kvcheck.cli.common import command, print_text


@command
def vet(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT.py", help="A reporter's script; it is run, and never changed.")],
    rest: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer reads this on Python 3.10 too
        typer.Argument(metavar="[-- ARGS...]", help="The script's own arguments.", show_default=False),
    ] = None,
    python: o.Python = None,
    timeout: Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Limit of each run of the script.")] = 120.0,
    no_well_formed: Annotated[
        bool, typer.Option("--no-well-formed", help="Leaves out the same shapes with inputs that mean something.")
    ] = False,
    format_: Annotated[str, typer.Option("--format", metavar="table|json", help="Text, or JSON.")] = "table",
) -> int:
    """Runs a reporter's script under watch, and says whether its inputs, its metric and its conclusion can prove anything."""
    from kvcheck.flow import vet as flow
    from kvcheck.report import vet as words

    request = flow.Request(script, tuple(rest or ()), python, timeout, form=format_, well_formed=not no_well_formed)
    report, code = flow.examine(request)
    print_text(json.dumps(report, indent=1, allow_nan=False) if format_ == "json" else words.render(report))
    return code
