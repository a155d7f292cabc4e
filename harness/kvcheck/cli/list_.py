"""`kvcheck list`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from kvcheck.cli.common import command, print_text


@command
def list_(
    what: Annotated[str, typer.Argument(metavar="ops|providers|references|cases|faults|relations", help="What to list.")],
    format_: Annotated[str, typer.Option("--format", metavar="table|json", help="Text, or JSON.")] = "table",
) -> None:
    """Lists what there is, with file:line of each."""
    from kvcheck.flow import listing

    rows = listing.rows(what)
    print_text(json.dumps(rows, indent=1) if listing.check_format(format_) == "json" else listing.text(rows))
