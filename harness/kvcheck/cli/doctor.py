"""`kvcheck doctor`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from kvcheck.cli import options as o
from kvcheck.cli.common import command, print_text


@command
def doctor(
    device: o.Device = "auto",
    python: o.Python = None,
    image: o.Image = None,
    exec_: o.Exec = None,
    engine: o.Engine = None,
    engine_option: o.EngineOption = None,
    mount: o.Mount = None,
    format_: Annotated[str, typer.Option("--format", metavar="table|json", help="Text, or JSON.")] = "table",
) -> int:
    """Says which providers can run here, and for each that cannot, why and what would change it."""
    from kvcheck.flow import doctor as flow
    from kvcheck.flow import listing

    as_json = listing.check_format(format_) == "json"
    report = flow.examine(device, python, o.where(image, exec_, engine, engine_option, mount))
    print_text(json.dumps(report, indent=1) if as_json else flow.text(report))
    return flow.exit_code(report)
