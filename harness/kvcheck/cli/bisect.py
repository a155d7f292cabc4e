"""`kvcheck bisect`: one file a target, and `resume`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from kvcheck.cli import bisect_git, bisect_images, bisect_wheels
from kvcheck.cli.common import command

app = typer.Typer(
    help="Walks a range of container images, commits or package versions to the change that brought a fault in.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("images")(bisect_images.images)
app.command("git")(bisect_git.git)
app.command("wheels")(bisect_wheels.wheels)

Folder = Annotated[Path, typer.Argument(metavar="OUT", help="Folder of a bisect that was begun.", show_default=False)]


@app.command("resume")
@command
def resume(out: Folder) -> None:
    """Goes on with a bisect: its own command again, in the folder where it was typed; a step that was running is run again."""
    from kvcheck.flow.bisect_state import read, resume_words
    from kvcheck.flow.options import UsageError

    data = read(out).data
    words = resume_words(data, out)
    try:
        os.chdir(data["cwd"])
    except OSError as error:
        raise UsageError(f"OUT: the bisect was begun in {data['cwd']}, which is not there any more ({error.strerror})") from error
    sys.stdout.flush()
    sys.stderr.flush()
    # A process of its own: the command reads its words from there, and Ctrl-C reaches it as it reaches any.
    os.execv(sys.executable, [sys.executable, "-m", "kvcheck.cli.main", *words])
