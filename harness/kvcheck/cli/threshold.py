"""`kvcheck threshold`."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from kvcheck.cli import options as o
from kvcheck.cli.common import command, words

Axis = Annotated[Optional[str], typer.Option("--axis", help="Ordered axis to walk along; the file's threshold block names one.")]  # noqa: UP045
Range = Annotated[
    Optional[tuple[int, int]],  # noqa: UP045
    typer.Option("--range", metavar="LOW HIGH", help="Both ends included; the file's threshold block has one."),
]
All = Annotated[bool, typer.Option("--all", help="Searches every combination of the other axes.")]


@command
def threshold(
    cases: o.Cases,
    axis: Axis = None,
    range_: Range = None,
    every: All = False,
    provider: o.Provider = None,
    set_: o.Set = None,
    device: o.Device = "auto",
    sanitizer_off: o.SanitizerOff = None,
    python: o.Python = None,
    image: o.Image = None,
    exec_: o.Exec = None,
    engine: o.Engine = None,
    engine_option: o.EngineOption = None,
    mount: o.Mount = None,
    seed: o.Seed = None,
    repeat: o.Repeat = None,
    fresh: o.Fresh = None,
    precision: o.Precision = None,
    timeout: o.Timeout = 120.0,
    jobs: o.Jobs = None,
    memory: o.Memory = None,
    no_diagnosis: o.NoDiagnosis = False,
    out: o.Out = None,
    resume: o.Resume = False,
    format_: o.Format = None,
    quiet: o.Quiet = False,
    exit_code: o.ExitCode = None,
    no_mask: o.NoMask = False,
) -> int:
    """Finds where the verdict flips along an ordered axis."""
    from kvcheck.flow.options import Options
    from kvcheck.flow.outcome import for_git_bisect
    from kvcheck.flow.run import threshold as flow

    o.check_exit_code(exit_code)
    code = flow(
        Options(
            cases=tuple(cases),
            providers=tuple(provider or ()),
            sets=tuple(set_ or ()),
            device=device,
            sanitizer_off=tuple(sanitizer_off or ()),
            python=python,
            seed=seed,
            repeat=repeat,
            fresh=fresh,
            precision=precision,
            timeout=timeout,
            jobs=jobs,
            memory=int(memory * 2**30) if memory else None,
            diagnose=not no_diagnosis,
            out=out,
            resume=resume,
            formats=tuple(format_ or ("table",)),
            quiet=quiet,
            mask=not no_mask,
            words=words(),
            where=o.where(image, exec_, engine, engine_option, mount),
        ),
        axis,
        range_,
        every,
    )
    return for_git_bisect(code) if exit_code else code
