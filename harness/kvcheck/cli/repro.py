"""`kvcheck repro`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from kvcheck.cli import options as o
from kvcheck.cli.common import command, print_text, words

Out = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--out", metavar="FILE", help="The script; by default repro-PROVIDER-CASE.py in the run's folder."),
]
NoRun = Annotated[bool, typer.Option("--no-run", help="Writes the script and does not run it.")]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", min=1.0, help="What the script may take when it is run.")]


@command
def repro(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run, or its run.json.")],
    case: Annotated[str, typer.Argument(metavar="CASE_ID", help="A case of the run: CASE_ID or CASE_ID@PROVIDER.")],
    out: Out = None,
    no_run: NoRun = False,
    python: o.Python = None,
    timeout: Timeout = 180.0,
) -> int:
    """Writes one short Python script that shows the failure with torch and the kernel's own package alone, and runs it.

    Exits with 0 when the script does what the run saw, with 3 when that could not be confirmed; the script is kept.
    """
    from kvcheck.flow import repro as flow

    told, code = flow.repro(flow.Request(run, case, out, not no_run, python, timeout, words()))
    print_text(told)
    return code
