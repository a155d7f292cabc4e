"""`kvcheck run`."""

from __future__ import annotations

from typing import Annotated

import typer

from kvcheck.cli import options as o
from kvcheck.cli.common import command, words


@command
def run(
    cases: o.Cases,
    provider: o.Provider = None,
    set_: o.Set = None,
    only: o.Only = None,
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
    shard: o.Shard = None,
    coverage: o.Coverage = None,
    limit: o.Limit = None,
    memory: o.Memory = None,
    no_diagnosis: o.NoDiagnosis = False,
    out: o.Out = None,
    resume: o.Resume = False,
    format_: o.Format = None,
    quiet: o.Quiet = False,
    shrink: Annotated[bool, typer.Option("--shrink", help="Looks for the smallest case of each failure.")] = False,
    no_threshold: Annotated[bool, typer.Option("--no-threshold", help="Leaves the file's threshold block alone.")] = False,
    exit_code: o.ExitCode = None,
    known: o.Known = None,
    no_mask: o.NoMask = False,
) -> int:
    """Runs case files on real kernels and on the reference, and judges them."""
    from kvcheck.flow.options import Options
    from kvcheck.flow.outcome import for_git_bisect
    from kvcheck.flow.run import run as flow

    o.check_exit_code(exit_code)
    code = flow(
        Options(
            cases=tuple(cases),
            providers=tuple(provider or ()),
            sets=tuple(set_ or ()),
            only=tuple(only or ()),
            device=device,
            sanitizer_off=tuple(sanitizer_off or ()),
            python=python,
            seed=seed,
            repeat=repeat,
            fresh=fresh,
            precision=precision,
            timeout=timeout,
            jobs=jobs,
            shard=o.shard(shard),
            coverage=coverage,
            limit=limit,
            memory=int(memory * 2**30) if memory else None,
            diagnose=not no_diagnosis,
            out=out,
            resume=resume,
            formats=tuple(format_ or ("table",)),
            quiet=quiet,
            thresholds=not no_threshold,
            known=tuple(known or ()),
            mask=not no_mask,
            words=words(),
            shrink=shrink,
            where=o.where(image, exec_, engine, engine_option, mount),
        )
    )
    return for_git_bisect(code) if exit_code else code
