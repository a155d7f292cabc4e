"""How every command ends: one clear message and the contract's exit code."""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Callable
from typing import Any

import typer


def command(function: Callable[..., int | None]) -> Callable[..., None]:
    """Turns what a command returns or raises into an exit code: usage 2, nothing judged 3, Ctrl-C 130."""

    @functools.wraps(function)
    def wrapped(*arguments: Any, **options: Any) -> None:
        from kvcheck.cases.errors import CaseFileError
        from kvcheck.execute.errors import ExecuteError
        from kvcheck.flow.options import NothingJudged, UsageError

        signal.signal(signal.SIGTERM, signal.default_int_handler)  # agents are ended and the journal is closed, as for Ctrl-C
        try:
            code = function(*arguments, **options)
        except (CaseFileError, UsageError) as error:
            typer.echo(f"kvcheck: {error}", err=True)
            raise typer.Exit(2) from None
        except ExecuteError as error:
            typer.echo(f"kvcheck: {error}", err=True)
            raise typer.Exit(error.exit_code) from None
        except NothingJudged as error:
            typer.echo(f"kvcheck: {error}", err=True)
            raise typer.Exit(3) from None
        except KeyboardInterrupt:
            typer.echo("kvcheck: interrupted; what was judged is in the journal", err=True)
            raise typer.Exit(130) from None
        except BrokenPipeError:
            sys.stderr.close()
            raise typer.Exit(0) from None
        raise typer.Exit(code or 0)

    return wrapped


def words() -> tuple[str, ...]:
    """The command line as typed, for the report."""
    return tuple(sys.argv[1:])


def print_text(text: str) -> None:
    """Prints a rendered report as it is: no markup, no wrapping."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()
