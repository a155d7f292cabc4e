"""Agents behind any command that runs another one: `srun ... --`, `ssh host`, `kubectl exec -i pod --`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

from kvcheck.execute import zipapp
from kvcheck.execute.remote import RemoteProcess
from kvcheck.execute.script import boot_source, script


class PrefixLauncher:
    """Starts agents behind a command prefix. Nothing has to be there but a shell and a Python with torch; nothing is left behind.

    The command that is run is `PREFIX sh`: no word of it means anything to a second shell, such as ssh's. The script, then a Python
    program, then the agent's zip go in on stdin, each when the one before it asks; answers are found on stdout by a mark, whatever
    else is printed there.

    Args:
        prefix: words before the command.
        python: interpreter there; None looks for one that imports torch.
        threads: torch threads of an agent.
        note: told the command line before it is first run.
    """

    def __init__(
        self, prefix: Sequence[str], python: str | None = None, threads: int = 1, note: Callable[[str], None] | None = None
    ) -> None:
        self.command = [*prefix, "sh"]
        self.python: str | None = None
        self._asked = None if python == "auto" else python
        self._threads = threads
        self._payload = (boot_source(), zipapp.pack(zipapp.sources()))
        if note:
            note(f"agents are started by: {shlex.join(self.command)}")

    def launch(self, arguments: list[str], mark: str, variables: Mapping[str, str | None]) -> RemoteProcess:
        """Starts one agent."""
        options = ["--threads", str(self._threads), *arguments]
        text = script(mark, options, python=self.python, asked=self._asked, variables=variables, threads=self._threads)
        return RemoteProcess(self.command, mark, first=text.encode(), then=self._payload, heard=self._found)

    def end(self, mark: str) -> None:
        """Nothing: the far side ends its agent when its requests end."""

    def close(self) -> None:
        """Nothing: the far side removes what it made."""

    def _found(self, python: str) -> None:
        self.python = self.python or python


def prefix_words(text: str) -> list[str]:
    """A prefix as typed, in words.

    Raises:
        ValueError: an open quote, or nothing.
    """
    words = shlex.split(text)
    if not words:
        raise ValueError("expected a command such as 'ssh HOST' or 'srun -n1 --', got nothing")
    return words
