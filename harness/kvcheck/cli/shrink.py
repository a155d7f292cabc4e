"""`kvcheck shrink`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from kvcheck.cli import options as o
from kvcheck.cli.common import command

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run, or its run.json.")]
CaseId = Annotated[str, typer.Argument(metavar="CASE_ID", help="A case that failed: CASE_ID or CASE_ID@PROVIDER.")]
MaxEvaluations = Annotated[int, typer.Option("--max-evaluations", metavar="N", min=1, help="Most cases that are judged.")]
MaxSeconds = Annotated[float, typer.Option("--max-seconds", metavar="SECONDS", min=0.1, help="Most time that is spent.")]
Device = Annotated[Optional[str], typer.Option("--device", metavar="DEVICE", help="Another device than the run's.")]  # noqa: UP045
Timeout = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Limit of a case; the run's, and at most 10 where the failure is a hang."),
]
Format = Annotated[str, typer.Option("--format", metavar="FORMAT", help="table or json.")]


@command
def shrink(
    run: Run,
    case_id: CaseId,
    max_evaluations: MaxEvaluations = 500,
    max_seconds: MaxSeconds = 300.0,
    device: Device = None,
    sanitizer_off: o.SanitizerOff = None,
    python: o.Python = None,
    image: o.Image = None,
    exec_: o.Exec = None,
    engine: o.Engine = None,
    engine_option: o.EngineOption = None,
    mount: o.Mount = None,
    timeout: Timeout = None,
    memory: o.Memory = None,
    out: o.Out = None,
    format_: Format = "table",
    quiet: o.Quiet = False,
    no_mask: o.NoMask = False,
) -> int:
    """Finds the smallest case that fails in the same way, and the closest one that passes."""
    from kvcheck.flow.shrink_run import Request
    from kvcheck.flow.shrink_run import shrink as flow
    from kvcheck.search.shrink import Budget

    elsewhere = image or exec_ is not None or engine or engine_option or mount
    return flow(
        Request(
            run=run,
            case=case_id,
            budget=Budget(max_evaluations, max_seconds),
            device=device,
            python=python,
            timeout=timeout,
            memory=int(memory * 2**30) if memory else None,
            sanitizer_off=tuple(sanitizer_off or ()),
            where=o.where(image, exec_, engine, engine_option, mount) if elsewhere else None,
            out=out,
            form=format_,
            quiet=quiet,
            mask=not no_mask,
        )
    )
