"""`kvcheck compile`."""

from __future__ import annotations

import json
from typing import Annotated, Optional

import typer

from kvcheck.cli import options as o
from kvcheck.cli.common import command, print_text, words


@command
def compile_(
    cases: Annotated[
        Optional[list[str]],  # noqa: UP045 - typer reads this on Python 3.10 too
        typer.Argument(metavar="[CASE...]", help="Case files whose shapes are compiled; a built-in list by default.", show_default=False),
    ] = None,
    target: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option("--target", metavar="CHIP", help="gfx942, gfx950, sm_90, ...; repeatable; gfx942 and gfx950 by default."),
    ] = None,
    provider: o.Provider = None,
    set_: o.Set = None,
    python: o.Python = None,
    against: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--against", metavar="PROVIDER", help="Another provider or checkout to compare with, such as aiter@OLD_DIR."),
    ] = None,
    against_python: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--against-python", metavar="PATH", help="Another interpreter, and so another Triton, to compare with."),
    ] = None,
    out: Annotated[o.Out.__origin__, typer.Option("--out", metavar="DIR", help="Folder that gets compile.json.")] = None,
    format_: Annotated[str, typer.Option("--format", metavar="table|json", help="Text, or JSON.")] = "table",
    quiet: o.Quiet = False,
) -> int:
    """Compiles every Triton and Gluon kernel of a provider for chips that need not be here; runs nothing."""
    from kvcheck.flow.compile import Request, compile_
    from kvcheck.report import compiled

    report, code = compile_(
        Request(
            cases=tuple(cases or ()),
            targets=tuple(target or ()),
            providers=tuple(provider or ()),
            sets=tuple(set_ or ()),
            python=python,
            against=against,
            against_python=against_python,
            out=out,
            form=format_,
            quiet=quiet,
            words=words(),
        )
    )
    print_text(json.dumps(report, indent=1, allow_nan=False) if format_ == "json" else compiled.render(report))
    return code
