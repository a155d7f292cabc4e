"""`kvcheck bisect git`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from kvcheck.cli import options as o
from kvcheck.cli.bisect_options import Bad, Common, Good, bisect_command

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Repository or checkout; it is only read.", show_default=False)]
Only = Annotated[
    Optional[list[str]],  # noqa: UP045 - typer reads this on Python 3.10 too
    typer.Option("--path", metavar="PATH", help="Only commits that touch it are tried; repeatable."),
]
Build = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--build", metavar="COMMAND", help="Builds a commit, in its worktree; one that does not build is unknown."),
]
BuildTimeout = Annotated[float, typer.Option("--build-timeout", metavar="SECONDS", min=1.0, help="Limit of a build.")]
BuildImage = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--image", metavar="IMAGE", help="Container image that commits are built and run in."),
]


@bisect_command
def git(
    folder: Folder,
    cases: o.Cases,
    good: Good,
    bad: Bad,
    path: Only = None,
    build: Build = None,
    build_timeout: BuildTimeout = 3600.0,
    image: BuildImage = None,
    engine: o.Engine = None,
    engine_option: o.EngineOption = None,
    mount: o.Mount = None,
    *,
    common: Common,
) -> int:
    """Walks commits of a repository to the first bad one; `{tree}` in a provider is the commit's files, as in aiter@{tree}."""
    from kvcheck.flow.bisect import bisect
    from kvcheck.flow.bisect_git import Request, target

    options = common(cases)
    where = o.where([image] if image else None, None, engine, engine_option, mount)
    return bisect(target(Request(folder, good, bad, tuple(path or ()), build, build_timeout, where), options), options)
