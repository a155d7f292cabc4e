"""What can keep cases from being executed at all, as exceptions; what happens to one case is a verdict instead.

ExecuteError
├── UsageError           an option that cannot be: exit code 2
├── JournalError         OUT belongs to another run: exit code 2
└── StartError           no agent can be started here: exit code 3
"""

from __future__ import annotations


class ExecuteError(Exception):
    """Base of everything raised here; the text is for the user.

    Attributes:
        exit_code: what a command that gives up on it exits with.
    """

    exit_code = 3


class UsageError(ExecuteError):
    """An option names something that is not there or cannot be."""

    exit_code = 2


class JournalError(ExecuteError):
    """The journal cannot be continued: another plan's, in use, damaged, or there without `--resume`."""

    exit_code = 2


class StartError(ExecuteError):
    """No agent came up: no interpreter with torch, no such device, or a start-up that ends in an error.

    Attributes:
        final: whether another try would end the same.
    """

    def __init__(self, reason: str, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final
