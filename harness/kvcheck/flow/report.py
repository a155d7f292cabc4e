"""`kvcheck report`: a finished run in other formats, printed, written or posted."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kvcheck.flow import known, post, render
from kvcheck.flow.options import UsageError
from kvcheck.report.words.masking import masked


@dataclass(frozen=True)
class Request:
    """What is wanted.

    Args:
        run: the folder of a run, or its run.json.
        formats: in which it is rendered.
        out: a file instead of stdout; None prints.
        known: lists of known failures.
        mask: whether names, paths and tokens are taken out.
        post: OWNER/REPO#N, or None.
        yes: post without asking.
    """

    run: Path
    formats: tuple[str, ...] = ("table",)
    out: Path | None = None
    known: tuple[Path, ...] = ()
    mask: bool = True
    post: str | None = None
    yes: bool = False


def report(request: Request) -> None:
    """Renders a run.

    Raises:
        UsageError: options that do not go together, or a run that cannot be read.
        CaseFileError: a list of known failures that is not sound.
        NothingJudged: it could not be posted.
    """
    render.check(request.formats)
    place = post.parse(request.post) if request.post is not None else None
    if place and request.formats != ("github",):
        raise UsageError(f"--post: expected --format github, got {' and '.join(request.formats)}")
    if request.yes and not place:
        raise UsageError("--yes: expected --post OWNER/REPO#N, got nothing to post")
    check_out(request.out, request.formats)
    run = known.apply(render.read(request.run), known.load_all(request.known))
    run = {**run, "run": {**(run.get("run") or {}), "masked": request.mask}}
    texts = [render.render(masked(run) if request.mask else run, form) for form in request.formats]
    if place:
        post.post(texts[0], place, request.yes)
    give(texts if not place or request.out else [], request.out)


def check_out(out: Path | None, formats: tuple[str, ...], option: str = "--out") -> None:
    """Refuses a file that cannot take what is rendered.

    Raises:
        UsageError: a folder, or several formats for one file.
    """
    if out is not None and len(formats) != 1:
        raise UsageError(f"{option}: expected one --format for one file, got {len(formats)}: {', '.join(formats)}")
    if out is not None and out.is_dir():
        raise UsageError(f"{option}: expected a file, got the folder {out}")


def give(texts: Iterable[str], out: Path | None, option: str = "--out") -> None:
    """Prints texts as they are, or writes the only one to a file, whole or not at all.

    Raises:
        UsageError: the file cannot be written.
    """
    for text in texts:
        text = text if text.endswith("\n") else text + "\n"
        if out is None:
            sys.stdout.write(text)
            sys.stdout.flush()
            continue
        part = out.with_name(out.name + ".part")
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(out)
        except OSError as error:
            raise UsageError(f"{option}: cannot write {out}: {error.strerror}") from error
