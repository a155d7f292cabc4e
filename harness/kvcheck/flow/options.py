"""What the options that mean the same everywhere hold once they are parsed."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from kvcheck.agent.protocol import SANITIZER
from kvcheck.agent.specs import nearest
from kvcheck.flow.where import HERE, Where


@dataclass(frozen=True)
class Options:
    """Options of `run` and `threshold`.

    Attributes:
        cases: case files: paths or names of built-in ones.
        providers: replace the files' lists when not empty.
        sets: `axis=v1,v2` replacements.
        only: ids of cases (or `ID@PROVIDER` rows) to keep.
        device: auto, cpu, cuda, cuda:N, gfx942-emulated or gfx950-emulated.
        sanitizer_off: kinds of findings that an emulated device does not look for.
        python: interpreter of the agent, "auto", or None for kvcheck's own where it has torch.
        seed: None leaves the files' seeds.
        repeat: calls of the kernel a case in one process; None leaves the files'.
        fresh: new processes a case is run in; None leaves the files'.
        precision: model that overrides the providers'.
        timeout: seconds a case; start-up and compilation do not count.
        jobs: agents at once; None chooses.
        shard: (I, N): every N-th case from the I-th, or None.
        coverage: overrides the files'.
        limit: most points of a case file; None leaves the built-in limit.
        memory: bytes an agent may use on a CPU; None shares what is free.
        out: folder of the run; None makes one under reports/.
        resume: go on with what `out` has.
        formats: what is printed.
        quiet: no progress.
        diagnose: whether the faults behind failing cases are looked for.
        thresholds: whether a file's threshold block is searched as well.
        known: lists of known failures.
        mask: whether paths, names and tokens are taken out of what the run leaves.
        words: the command line as typed, for the report.
        where: images or a command prefix, where the cases are not to run on this machine.
        shrink: whether the first case of each failure is shrunk.
    """

    cases: tuple[str, ...]
    providers: tuple[str, ...] = ()
    sets: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    device: str = "auto"
    sanitizer_off: tuple[str, ...] = ()
    python: str | None = None
    seed: int | None = None
    repeat: int | None = None
    fresh: int | None = None
    precision: str | None = None
    timeout: float = 120.0
    jobs: int | None = None
    shard: tuple[int, int] | None = None
    coverage: str | None = None
    limit: int | None = None
    memory: int | None = None
    out: Path | None = None
    resume: bool = False
    formats: tuple[str, ...] = ("table",)
    quiet: bool = False
    diagnose: bool = True
    thresholds: bool = True
    known: tuple[Path, ...] = ()
    mask: bool = True
    words: tuple[str, ...] = field(default=())
    where: Where = HERE
    shrink: bool = False

    @property
    def command(self) -> str:
        """The command line, quoted for a shell."""
        return shlex.join(["kvcheck", *self.words])

    def again(self, case_file: str, provider: str, selection: list[str]) -> str:
        """The command that repeats one row.

        Args:
            case_file: what names the case file.
            provider: the row's provider.
            selection: words that pick the case.
        """
        words = ["kvcheck", "run", case_file, *selection, "--provider", provider]
        words += [word for text in self.sets for word in ("--set", text)]
        plain = (
            ("--seed", self.seed),
            ("--repeat", self.repeat),
            ("--fresh", self.fresh),
            ("--precision", self.precision),
            ("--python", self.python),
        )
        words += [str(word) for option, value in plain if value is not None for word in (option, value)]
        if self.device != "auto":
            words += ["--device", self.device]
        words += [word for kind in self.sanitizer_off for word in ("--sanitizer-off", kind)]
        words += self.where.again()
        return shlex.join(words)


EMULATED = ("gfx942-emulated", "gfx950-emulated")
"""AMD cards whose machine code a CPU can execute."""


class UsageError(Exception):
    """A command line that cannot be followed; the text is the message, the exit code 2."""


class NothingJudged(Exception):
    """There is nothing that could be judged; the text says why, the exit code is 3."""


def check_device(text: str) -> None:
    """Refuses names that are no device.

    Raises:
        UsageError: with the nearest name.
    """
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", text) and text not in EMULATED:
        known = ("auto", "cpu", "cuda", "cuda:N", *EMULATED)
        raise UsageError(f"--device: expected {', '.join(known[:-1])} or {known[-1]}, got {text!r}; nearest: {nearest(text, known)}")


def check_sanitizer(kinds: tuple[str, ...], device: str) -> None:
    """Refuses kinds of findings that there are not, and devices without a sanitizer.

    Raises:
        UsageError: with the nearest name.
    """
    for kind in kinds:
        if kind not in SANITIZER:
            raise UsageError(f"--sanitizer-off: expected one of {', '.join(SANITIZER)}, got {kind!r}; nearest: {nearest(kind, SANITIZER)}")
    if kinds and device not in EMULATED:
        raise UsageError(f"--sanitizer-off: expected --device {' or '.join(EMULATED)}, got {device}: only those have a sanitizer")
