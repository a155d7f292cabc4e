"""`kvcheck bisect wheels`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from kvcheck.cli import options as o
from kvcheck.cli.bisect_options import Bad, Common, Good, bisect_command

Package = Annotated[str, typer.Argument(metavar="PACKAGE", help="Name of the distribution, such as amd-aiter.", show_default=False)]
IndexUrl = Annotated[Optional[str], typer.Option("--index-url", metavar="URL", help="As pip's; by default what pip is set to.")]  # noqa: UP045
ExtraIndexUrl = Annotated[
    Optional[list[str]],  # noqa: UP045 - typer reads this on Python 3.10 too
    typer.Option("--extra-index-url", metavar="URL", help="As pip's; repeatable."),
]
FindLinks = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--find-links", metavar="DIR|URL", help="As pip's: a folder or a page with wheels; repeatable."),
]
NoIndex = Annotated[bool, typer.Option("--no-index", help="As pip's: --find-links alone.")]
Pre = Annotated[bool, typer.Option("--pre", help="Walks pre-releases and development versions too.")]
AnyVariant = Annotated[bool, typer.Option("--any-variant", help="Walks builds for other stacks (+rocm7.2, +cu128) too.")]
WithDeps = Annotated[bool, typer.Option("--with-deps", help="Gives each version what it depends on, in an environment of its own.")]
Build = Annotated[bool, typer.Option("--build", help="Builds versions that have no wheel from source.")]
Import = Annotated[Optional[str], typer.Option("--import", metavar="NAME", help="Name the package is imported under.")]  # noqa: UP045
Repo = Annotated[Optional[Path], typer.Option("--repo", metavar="DIR", help="Clone in which versions are looked up by content.")]  # noqa: UP045
Cache = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--cache", metavar="DIR", help="Folder that keeps installed versions for the next bisect; by default OUT/wheels."),
]


@bisect_command
def wheels(
    package: Package,
    cases: o.Cases,
    good: Good,
    bad: Bad,
    index_url: IndexUrl = None,
    extra_index_url: ExtraIndexUrl = None,
    find_links: FindLinks = None,
    no_index: NoIndex = False,
    pre: Pre = False,
    any_variant: AnyVariant = False,
    with_deps: WithDeps = False,
    build: Build = False,
    import_: Import = None,
    repo: Repo = None,
    cache: Cache = None,
    *,
    common: Common,
) -> int:
    """Walks the published versions of a package, each laid over the environment that has everything else."""
    from kvcheck.execute.launch import choose_python
    from kvcheck.flow.bisect import bisect
    from kvcheck.targets.indexes import Pip, source_words
    from kvcheck.targets.versions import Wanted, one_level_deeper
    from kvcheck.targets.wheels import WheelsTarget

    options = common(cases)
    run = options.run
    again = one_level_deeper(cases, run.providers, run.sets, run.only, run.device)
    wanted = Wanted(package, good, bad, options.find, pre, any_variant, with_deps, import_, repo, again)
    words = source_words(index_url, extra_index_url or (), find_links or (), no_index)
    return bisect(WheelsTarget(wanted, Pip(choose_python(run.python), words, build), cache and cache.absolute()), options)
