"""What every `kvcheck bisect` command takes beside its own options, declared once.

A command declares the options of its target and a keyword `common`; the decorator adds the rest to what typer sees, and hands the
command a function that makes a BisectOptions of them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from kvcheck.cli import options as o
from kvcheck.cli.common import command, words

if TYPE_CHECKING:
    from kvcheck.flow.bisect_options import BisectOptions

Common = Callable[[list[str]], Any]
"""Makes a BisectOptions from its case files."""

Good = Annotated[str, typer.Option("--good", metavar="GOOD", help="End of the range where the cases pass.", show_default=False)]
Bad = Annotated[str, typer.Option("--bad", metavar="BAD", help="End of the range where they fail.", show_default=False)]
Find = Annotated[str, typer.Option("--find", metavar="regression|fix", help="What is looked for; with fix the bad end is the older one.")]
Runs = Annotated[
    int, typer.Option("--runs", metavar="N", min=1, max=1000, help="Runs in fresh processes that a good answer takes, for flaky faults.")
]
UnknownLimit = Annotated[
    int, typer.Option("--unknown-limit", metavar="N", min=1, help="Candidates without an answer in a row before the search gives up.")
]
Every = Annotated[bool, typer.Option("--every", help="Tries candidates of the same package content each.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Shows the plan and runs nothing.")]
Deep = Annotated[bool, typer.Option("--deep", help="Runs the first of the commands that look inside the difference.")]
NoThreshold = Annotated[bool, typer.Option("--no-threshold", help="Leaves the file's threshold block alone at the first bad one.")]
Out = Annotated[
    Optional[Path],  # noqa: UP045 - typer reads this on Python 3.10 too
    typer.Option("--out", metavar="DIR", help="Folder of the bisect; a new one under reports/ by default."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Goes on with the bisect in --out; as `kvcheck bisect resume OUT`.")]
Format = Annotated[Optional[list[str]], typer.Option("--format", metavar="FORMAT", help="markdown, json; repeatable.")]  # noqa: UP045


def _common(
    provider: o.Provider = None,
    set_: o.Set = None,
    only: o.Only = None,
    device: o.Device = "auto",
    sanitizer_off: o.SanitizerOff = None,
    python: o.Python = None,
    seed: o.Seed = None,
    repeat: o.Repeat = None,
    precision: o.Precision = None,
    coverage: o.Coverage = None,
    limit: o.Limit = None,
    timeout: o.Timeout = 120.0,
    jobs: o.Jobs = None,
    memory: o.Memory = None,
    no_diagnosis: o.NoDiagnosis = False,
    no_mask: o.NoMask = False,
    no_threshold: NoThreshold = False,
    find: Find = "regression",
    runs: Runs = 1,
    every: Every = False,
    unknown_limit: UnknownLimit = 16,
    dry_run: DryRun = False,
    deep: Deep = False,
    out: Out = None,
    resume: Resume = False,
    format_: Format = None,
    quiet: o.Quiet = False,
) -> Common:
    """The function that makes a BisectOptions of what was typed."""

    def make(cases: list[str]) -> BisectOptions:
        from kvcheck.flow.bisect_options import BisectOptions
        from kvcheck.flow.options import Options

        run = Options(
            cases=tuple(cases),
            providers=tuple(provider or ()),
            sets=tuple(set_ or ()),
            only=tuple(only or ()),
            device=device,
            sanitizer_off=tuple(sanitizer_off or ()),
            python=python,
            seed=seed,
            repeat=repeat,
            precision=precision,
            timeout=timeout,
            jobs=jobs,
            coverage=coverage,
            limit=limit,
            memory=int(memory * 2**30) if memory else None,
            diagnose=not no_diagnosis,
            mask=not no_mask,
            thresholds=not no_threshold,
            out=out,
            resume=resume,
            formats=(),
            quiet=quiet,
            words=words(),
        )
        return BisectOptions(run, find, runs, unknown_limit, every, dry_run, deep, tuple(format_ or ("markdown",)))

    return make


def bisect_command(function: Callable[..., int | None]) -> Callable[..., None]:
    """A command of `kvcheck bisect`: its own options first, then the common ones.

    Args:
        function: with a keyword-only `common`.
    """
    own = _resolved(function)
    del own["common"]
    shared = _resolved(_common)

    @functools.wraps(function)
    def wrapped(**given: Any) -> int | None:
        return function(**{name: given[name] for name in own}, common=_common(**{name: given[name] for name in shared}))

    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own.values(), *shared.values())]
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return command(wrapped)


def _resolved(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Parameters with annotations as objects: the files of two functions know different names."""
    return dict(inspect.signature(function, eval_str=True).parameters)
