"""`kvcheck compare`: two finished runs, or one run made for it with two providers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from kvcheck.agent.specs import nearest
from kvcheck.flow import compare, known, record, render, report
from kvcheck.flow.options import Options, UsageError
from kvcheck.flow.run import run
from kvcheck.report import compared
from kvcheck.report.words.masking import masked

PAIR = 2


@dataclasses.dataclass(frozen=True)
class Request:
    """What is wanted.

    Args:
        formats: in which the comparison is rendered.
        drift: factor of `max_bound_ratio` from which a passing case is told.
        known: lists of known failures.
        mask: whether names, paths and tokens are taken out.
        write: a file instead of stdout.
    """

    formats: tuple[str, ...] = ("table",)
    drift: float = compare.DRIFT
    known: tuple[Path, ...] = ()
    mask: bool = True
    write: Path | None = None


def runs(paths: tuple[str, ...], request: Request) -> int:
    """Compares two finished runs.

    Returns:
        code: 1 when something got worse, 3 when nothing can be compared, else 0.

    Raises:
        UsageError: not two runs, or one that cannot be read.
    """
    _check(request)
    if len(paths) != PAIR:
        raise UsageError(f"expected two runs (RUN_A RUN_B), or CASE with --provider A --provider B, got {len(paths)} without --provider")
    a, b = (render.read(Path(path), option) for path, option in zip(paths, ("RUN_A", "RUN_B"), strict=True))
    return _finish(a, b, request, across=False)


def providers(options: Options, request: Request) -> int:
    """Runs cases with two providers and compares those. Returns and raises as `runs` and `kvcheck run` do."""
    _check(request)
    if len(options.providers) != PAIR or options.providers[0] == options.providers[1]:
        raise UsageError(f"--provider: expected two different ones to compare, got {', '.join(options.providers)}")
    out = record.folder(options, "compare")
    run(dataclasses.replace(options, out=out, formats=(), known=request.known, mask=request.mask))
    whole = render.read(out)
    names = list(dict.fromkeys(str(row["provider"]) for row in whole["cases"]))
    first, second = names if len(names) == PAIR else options.providers
    return _finish(*compare.split(whole, first, second), request, across=True)


def _check(request: Request) -> None:
    for form in request.formats:
        if form not in compared.FORMATS:
            known_ones = ", ".join(compared.FORMATS)
            raise UsageError(f"--format: expected {known_ones}, got {form!r}; nearest: {nearest(form, compared.FORMATS)}")
    if request.drift <= 1:
        raise UsageError(f"--drift: expected a factor above 1, got {request.drift:g}")
    report.check_out(request.write, request.formats, "--write")


def _finish(a: dict[str, Any], b: dict[str, Any], request: Request, *, across: bool) -> int:
    entries = known.load_all(request.known)
    sides = [known.apply(side, entries) for side in (a, b)]
    if request.mask:
        sides = [masked(side, public=True) for side in sides]
    result = compare.compare(*sides, drift=request.drift, across=across)
    report.give([compared.render(result, form) for form in request.formats], request.write, "--write")
    return int(result["exit_code"])
