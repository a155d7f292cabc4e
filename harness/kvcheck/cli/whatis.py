"""`kvcheck whatis`."""

from __future__ import annotations

import json
from typing import Annotated, Optional

import typer

from kvcheck.cli import options as o
from kvcheck.cli.common import command, print_text

Subjects = Annotated[
    list[str],
    typer.Argument(
        metavar="IMAGE|ENV [OTHER]", help="An image, a Python, or a folder of an environment; two are compared.", show_default=False
    ),
]
Repo = Annotated[
    Optional[list[str]],  # noqa: UP045 - typer reads this on Python 3.10 too
    typer.Option("--repo", metavar="NAME=DIR", help="Clone that a package is looked up in, by content; repeatable."),
]
Package = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--package", metavar="NAME", help="Import name of one more package to look at; repeatable."),
]


@command
def whatis(
    subjects: Subjects,
    repo: Repo = None,
    package: Package = None,
    engine: o.Engine = None,
    mount: o.Mount = None,
    format_: Annotated[str, typer.Option("--format", metavar="table|json", help="Text, or JSON.")] = "table",
) -> int:
    """Says what is really in an image or an environment: packages, versions, commits by content, and how sure that is."""
    from kvcheck.flow import whatis as flow
    from kvcheck.report import whatis as words

    request = flow.Request(tuple(subjects), tuple(repo or ()), tuple(package or ()), engine, tuple(mount or ()), format_)
    report = flow.look(request, lambda text: typer.echo(f"kvcheck: {text}", err=True))
    print_text(json.dumps(flow.without_files(report), indent=1) if format_ == "json" else words.render(report))
    return 0
