"""`kvcheck bisect images`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from kvcheck.cli import options as o
from kvcheck.cli.bisect_options import Bad, Common, Good, bisect_command

Template = Annotated[
    Optional[str],  # noqa: UP045 - typer reads this on Python 3.10 too
    typer.Option(
        "--image",
        metavar="TEMPLATE",
        help="REPOSITORY[:TAG], TAG with {date}, {date:%m%d}, {commit}, {rocm}, {card}, {version}, {variant} or *; "
        "by the names of the ends when left out.",
    ),
]
Candidates = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--candidates", metavar="FILE|IMAGE", help="Images, or a file with one a line, oldest first; repeatable."),
]
Source = Annotated[str, typer.Option("--from", metavar="WHERE", help="auto, local, registry, or dates: one image a day is asked for.")]
Order = Annotated[Optional[str], typer.Option("--order", metavar="ORDER", help="day, git, created or list.")]  # noqa: UP045
ByGit = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--order-by-git", metavar="DIR", help="Clone whose history puts tags with {commit} in order."),
]
TlsVerify = Annotated[
    bool, typer.Option("--tls-verify/--no-tls-verify", help="Whether the registry's certificate is looked at when its tags are listed.")
]
Disk = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option("--disk", metavar="GIB", min=0.001, help="Disk for images that this bisect pulls; the least recently used go."),
]
Swap = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--swap", metavar="PACKAGE", help="Exchanges a package between the two neighbours: it or the image is convicted."),
]
Repo = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--repo", metavar="PACKAGE=DIR", help="Clone that tells a package's commit by content; repeatable."),
]


@bisect_command
def images(
    cases: o.Cases,
    good: Good,
    bad: Bad,
    image: Template = None,
    candidates: Candidates = None,
    source: Source = "auto",
    order: Order = None,
    order_by_git: ByGit = None,
    tls_verify: TlsVerify = True,
    disk: Disk = None,
    swap: Swap = None,
    repo: Repo = None,
    engine: o.Engine = None,
    engine_option: o.EngineOption = None,
    mount: o.Mount = None,
    *,
    common: Common,
) -> int:
    """Walks container images to the first bad one. An end is a day, a tag, a digest or an image id."""
    from kvcheck.flow.bisect import bisect
    from kvcheck.flow.bisect_images import Request, target
    from kvcheck.targets.listing import Wanted

    options = common(cases)
    wanted = Wanted(good, bad, image, tuple(candidates or ()), source, order, order_by_git, options.find)
    request = Request(wanted, o.where(None, None, engine, engine_option, mount), tls_verify, disk, swap, tuple(repo or ()))
    return bisect(target(request, options), options)
