"""Where an agent runs: a launcher turns the zip and its options into a started process with three pipes."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from kvcheck.execute.errors import StartError, UsageError

AGE = "import sys; assert sys.version_info >= (3, 10), f'Python {sys.version.split()[0]} is older than 3.10'; "
HAS_TORCH = AGE + "from importlib.util import find_spec; assert find_spec('torch'), 'it has no torch'; print(sys.executable)"
IMPORTS_TORCH = AGE + "import torch; print(sys.executable)"
ASK_TIMEOUT = 120.0
DROPPED = ("PYTHONINSPECT", "PYTHONSTARTUP", "PYTHONPROFILEIMPORTTIME")
MARK = "KVCHECK_AGENT"
"""Variable that every process of an agent carries, children that left its process group included."""


class Launcher(Protocol):
    """A place agents can be started in: this machine, a container, behind a command prefix."""

    def launch(self, arguments: list[str], mark: str, variables: Mapping[str, str | None]) -> subprocess.Popen[bytes]:
        """Starts an agent that talks on stdin and stdout, in a process group of its own.

        Args:
            arguments: the agent's options.
            mark: value of the variable that names its processes.
            variables: of the environment it gets beyond the user's; None takes one away.

        Raises:
            OSError: it could not be started.
        """

    def end(self, mark: str) -> None:
        """Ends what a signal to the agent's process group does not reach.

        Args:
            mark: of an agent that was started here, perhaps ended already.
        """

    def close(self) -> None:
        """Clears up once every agent has ended; a second time does nothing."""


class ProcessLauncher:
    """Starts agents as processes on this machine.

    Args:
        python: interpreter that has torch.
        archive: the agent's zip.
        folder: neutral folder to run in, so that no file of the user's shadows a module.
        threads: torch threads of an agent.
    """

    def __init__(self, python: str, archive: Path, folder: Path, threads: int = 1) -> None:
        self.python = python
        self._archive = archive
        self._folder = folder
        self._threads = threads

    def launch(self, arguments: list[str], mark: str, variables: Mapping[str, str | None]) -> subprocess.Popen[bytes]:
        """Starts one agent."""
        command = [self.python, str(self._archive), "--threads", str(self._threads), *arguments]
        asked = {name: value for name, value in {**os.environ, **variables}.items() if value is not None}
        environment = agent_environment(asked, self._threads)
        environment[MARK] = mark
        pipe = subprocess.PIPE
        # A session of its own: Ctrl-C at the terminal is the front's to handle, and the whole group can be ended at once.
        return subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=self._folder, env=environment, start_new_session=True, bufsize=0
        )

    def end(self, mark: str) -> None:
        """Nothing: its process group and its mark are all there is of an agent."""

    def close(self) -> None:
        """Nothing: the scratch folder is the executor's."""


def agent_environment(environ: dict[str, str], threads: int) -> dict[str, str]:
    """The variables an agent starts with: the user's, made independent of the folder and of the front's own sources."""
    environment = {name: value for name, value in environ.items() if name not in DROPPED}
    path = _python_path(environ.get("PYTHONPATH", ""))
    environment.pop("PYTHONPATH", None)
    if path:
        environment["PYTHONPATH"] = path
    environment["PYTHONUNBUFFERED"] = "1"  # what a kernel printed before it died must be there to quote
    environment["PYTHONHASHSEED"] = "0"
    environment.setdefault("OMP_NUM_THREADS", str(threads))
    return environment


def choose_python(python: str | None) -> str:
    """The interpreter of the agents.

    Args:
        python: a path; "auto" for the first `python3` on PATH that imports torch, else kvcheck's own; None for kvcheck's own
            where that has torch, else as "auto".

    Raises:
        UsageError: no such interpreter.
        StartError: none has torch.
    """
    own = importlib.util.find_spec("torch") is not None
    if own and python in (None, sys.executable):
        return sys.executable
    if python not in (None, "auto"):
        found = shutil.which(os.path.expanduser(python))
        if not found:
            raise UsageError(f"--python: expected an executable Python or auto, got {python!r}, which is not there or not executable")
        _, problem = _ask(os.path.abspath(found), HAS_TORCH)
        if problem:
            raise StartError(f"--python {python} cannot run kernels: {problem}", final=True)
        return os.path.abspath(found)
    tried = []
    for candidate in _on_path():
        said, problem = _ask(candidate, IMPORTS_TORCH)
        if said:
            return said
        tried.append(f"{candidate}: {problem}")
    if own:
        return sys.executable
    tried.append(f"{sys.executable} (kvcheck's own): No module named 'torch'")
    raise StartError(
        "no Python with torch was found; name one with --python PATH, or install torch beside kvcheck. Tried:\n  " + "\n  ".join(tried),
        final=True,
    )


def absolute_provider(provider: str, base: Path | None = None) -> str:
    """A provider as an agent can find it from any folder: FILE.py and NAME@DIR with absolute paths, all else as it is.

    Args:
        provider: as the user wrote it.
        base: folder that relative paths start from; None is the current one.
    """
    base = base or Path.cwd()
    if provider.startswith("fault:"):
        return provider
    if provider.endswith(".py"):
        return os.path.abspath(base / Path(provider).expanduser())
    head, at, directory = provider.partition("@")
    return f"{head}@{os.path.abspath(base / Path(directory).expanduser())}" if at else provider


def _python_path(value: str) -> str:
    """PYTHONPATH without the roots of kvcheck itself; relative entries become absolute, since the agent runs elsewhere."""
    own = {os.path.realpath(Path(spec.origin).parent.parent) for name in ("kvcheck", "kvcheck_references") if (spec := _spec(name))}
    entries = [os.path.abspath(entry) for entry in value.split(os.pathsep)] if value else []
    return os.pathsep.join(entry for entry in entries if os.path.realpath(entry) not in own)


def _spec(name: str):
    spec = importlib.util.find_spec(name)
    return spec if spec and spec.origin else None


def _on_path() -> list[str]:
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    found = [shutil.which("python3", path=os.path.abspath(folder)) for folder in dict.fromkeys(folders) if folder]
    return [path for path in found if path]


def _ask(python: str, question: str) -> tuple[str | None, str | None]:
    """The interpreter's own name for itself, or why it will not do."""
    try:
        answer = subprocess.run(
            [python, "-c", question],
            env=agent_environment(dict(os.environ), 1),
            cwd=os.sep,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ASK_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    lines = (answer.stdout if answer.returncode == 0 else answer.stderr).strip().splitlines() or [f"exit status {answer.returncode}"]
    return (lines[-1], None) if answer.returncode == 0 else (None, lines[-1])
