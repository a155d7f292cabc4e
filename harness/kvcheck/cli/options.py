"""The options that mean the same in every command, declared once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

Cases = Annotated[list[str], typer.Argument(metavar="CASE...", help="Case files: paths, or names of built-in ones.", show_default=False)]
Provider = Annotated[
    Optional[list[str]],  # noqa: UP045 - typer reads this on Python 3.10 too
    typer.Option("--provider", metavar="NAME", help="NAME[:VARIANT][@DIR], FILE.py or fault:NAME; repeatable; replaces the file's list."),
]
Set = Annotated[Optional[list[str]], typer.Option("--set", metavar="AXIS=V1,V2", help="Replaces an axis; repeatable.")]  # noqa: UP045
Only = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--only", metavar="CASE_ID", help="Runs this case alone (CASE_ID or CASE_ID@PROVIDER); repeatable."),
]
Device = Annotated[
    str,
    typer.Option(
        "--device", metavar="DEVICE", help="auto, cpu, cuda, cuda:N (ROCm devices are cuda in torch), gfx942-emulated, gfx950-emulated."
    ),
]
SanitizerOff = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--sanitizer-off", metavar="KIND", help="A kind of finding that an emulated device is not to look for; repeatable."),
]
Python = Annotated[Optional[str], typer.Option("--python", metavar="PATH|auto", help="Interpreter that runs the kernels.")]  # noqa: UP045
Image = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--image", metavar="IMAGE", help="Runs in a container of this image (a name, NAME@DIGEST or an id); repeatable."),
]
Exec = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--exec", metavar="PREFIX", help="Runs behind a command: 'srun -n1 --', 'ssh HOST', 'kubectl exec -i POD --'."),
]
Engine = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--engine", metavar="NAME", help="docker, podman, apptainer, singularity, or a path to one; the first that works."),
]
EngineOption = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--engine-option", metavar="WORD", help="Replaces the engine's device options: --engine-option=--gpus=1; repeatable."),
]
Mount = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--mount", metavar="DIR[:AT]", help="A folder of this machine that containers may read; repeatable."),
]
Seed = Annotated[Optional[int], typer.Option("--seed", metavar="N", min=0, help="Seed of the inputs.")]  # noqa: UP045
Repeat = Annotated[Optional[int], typer.Option("--repeat", metavar="N", min=1, help="Calls of the kernel a case, in one process.")]  # noqa: UP045
Fresh = Annotated[Optional[int], typer.Option("--fresh", metavar="N", min=1, help="New processes a case is run in.")]  # noqa: UP045
Precision = Annotated[Optional[str], typer.Option("--precision", metavar="MODEL", help="Precision model that overrides the provider's.")]  # noqa: UP045
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Limit of a case; start-up and compilation have their own.")
]
Jobs = Annotated[Optional[int], typer.Option("--jobs", metavar="N", min=1, help="Agents at once.")]  # noqa: UP045
Shard = Annotated[Optional[str], typer.Option("--shard", metavar="I/N", help="Runs the I-th of N parts.")]  # noqa: UP045
Coverage = Annotated[Optional[str], typer.Option("--coverage", metavar="full|pairwise|sample:N", help="Overrides the file's coverage.")]  # noqa: UP045
Limit = Annotated[Optional[int], typer.Option("--limit", metavar="N", min=1, help="Most points of a case file.")]  # noqa: UP045
Memory = Annotated[Optional[float], typer.Option("--memory", metavar="GIB", min=0.1, help="Memory an agent may use on a CPU.")]  # noqa: UP045
NoDiagnosis = Annotated[bool, typer.Option("--no-diagnosis", help="Does not look for the fault behind a failing case.")]
Out = Annotated[Optional[Path], typer.Option("--out", metavar="DIR", help="Folder of the run; a new one under reports/ by default.")]  # noqa: UP045
Resume = Annotated[bool, typer.Option("--resume", help="Goes on with the run in --out.")]
Format = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--format", metavar="FORMAT", help="table, markdown, github, html, json, csv, junit; repeatable."),
]
Known = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Option("--known", metavar="FILE", help="YAML list of known failures, each with a reason and a link; repeatable."),
]
NoMask = Annotated[bool, typer.Option("--no-mask", help="Leaves paths, user and host names and tokens as they are: for your eyes only.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
ExitCode = Annotated[Optional[str], typer.Option("--exit-code", metavar="git-bisect", help="Exits with 125 where nothing could be judged.")]  # noqa: UP045


def where(image: list[str] | None, prefix: str | None, engine: str | None, engine_option: list[str] | None, mount: list[str] | None) -> Any:
    """The options that say where agents run, as one."""
    from kvcheck.flow.where import Where

    return Where(tuple(dict.fromkeys(image or ())), prefix, engine, tuple(engine_option or ()), tuple(mount or ()))


def shard(text: str | None) -> tuple[int, int] | None:
    """I/N as numbers.

    Raises:
        typer.BadParameter: not of that form, or I outside 1..N.
    """
    if text is None:
        return None
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise typer.BadParameter(f"expected I/N with I from 1 to N, got {text!r}", param_hint="--shard")
    return int(match[1]), int(match[2])


def check_exit_code(text: str | None) -> None:
    """Refuses every --exit-code but git-bisect.

    Raises:
        typer.BadParameter: another word.
    """
    if text not in (None, "git-bisect"):
        raise typer.BadParameter(f"expected git-bisect, got {text!r}", param_hint="--exit-code")
