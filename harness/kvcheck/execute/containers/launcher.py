"""Agents in containers: one container an agent, everything it needs mounted, its answers in a file that outlives it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kvcheck.execute import zipapp
from kvcheck.execute.containers import devices as host
from kvcheck.execute.containers.engine import Engine, Image, Mount
from kvcheck.execute.containers.owner import LABEL, identity
from kvcheck.execute.launch import absolute_provider
from kvcheck.execute.remote import RemoteProcess
from kvcheck.execute.script import boot_source, script

INSIDE = "/kvcheck"
"""Folder of everything that kvcheck brings into a container."""


class ContainerLauncher:
    """Starts agents in containers of one image: network off, in `/`, with the image's own variables and a HOME of its own.

    Answers go to a file in a mounted folder: what an agent wrote before it died is there, whatever becomes of the engine's client,
    and nothing that is printed in the container can get among them. Requests come on stdin: when kvcheck dies they end, and so does
    the agent. HOME is a folder of this launcher's, shared by its agents: one image never runs what another one compiled.

    Args:
        engine: that runs it.
        image: an image that is here, or a reference, which is fetched where it is not.
        folder: scratch folder; HOME and the answers are in it.
        devices: the engine's words for devices; None is what this host has.
        device: of the cases: cpu and emulated ones need no devices.
        mounts: what the agents see of this machine beyond kvcheck's own.
        variables: of the agents, over the image's own.
        python: interpreter in the image; None looks for one that imports torch.
        threads: torch threads of an agent.
        note: told the exact command line before it is first run, and of what is fetched.

    Attributes:
        image: what is run.
        python: the interpreter, once an agent has found it.
        shown: the command line, without the name of one container.

    Raises:
        StartError: the image is neither here nor to be had.
    """

    def __init__(
        self,
        engine: Engine,
        image: Image | str,
        folder: Path,
        *,
        devices: Sequence[str] | None = None,
        device: str = "auto",
        mounts: Sequence[Mount] = (),
        variables: Mapping[str, str] = {},
        python: str | None = None,
        threads: int = 1,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self.engine = engine
        self.image = engine.ensure(image, note) if isinstance(image, str) else image
        self.python: str | None = None
        self._asked = None if python == "auto" else python
        self._threads = threads
        self._devices = host.flags(engine.name, device) if devices is None else list(devices)
        chosen = {name: os.environ[name] for name in host.CHOOSE if name in os.environ}
        facts = {
            "HOME": f"{INSIDE}/home",
            "KVCHECK_IMAGE": self.image.reference,
            "KVCHECK_IMAGE_DIGEST": self.image.digest or self.image.id,
        }
        self._variables = {**chosen, **variables, **facts}
        self._owner = identity()
        self._live: dict[str, RemoteProcess] = {}
        self._starts = 0
        self._lock = threading.Lock()
        self._folder = folder / "containers"
        for name in ("in", "out", "home", "tmp"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        # For whoever the image's user is, whatever the umask; the scratch folder above is the user's alone.
        for name, mode in (("in", 0o755), ("out", 0o1777), ("home", 0o1777), ("tmp", 0o1777)):
            (self._folder / name).chmod(mode)
        self._archive = zipapp.build(self._folder / "in").name
        self._bring(self._archive, None)
        self._bring("boot.py", boot_source())
        self._mounts = [
            Mount(self._folder / "in", f"{INSIDE}/in"),
            Mount(self._folder / "out", f"{INSIDE}/out", True),
            Mount(self._folder / "home", f"{INSIDE}/home", True),
            *mounts,
        ]
        if not engine.keeps_containers:
            self._mounts.append(Mount(self._folder / "tmp", "/tmp", True))  # apptainer would give it the host's
        self.shown = shlex.join(self._command("NAME", "NAME.sh"))
        if note:
            note(f"agents are started by: {self.shown}")

    def launch(self, arguments: list[str], mark: str, variables: Mapping[str, str | None]) -> RemoteProcess:
        """Starts one agent in a new container."""
        with self._lock:
            self._starts += 1
            alone = not any(process.returncode is None for process in self._live.values())
            clear = alone and self._starts > 1
        answers = self._folder / "out" / f"{mark}.answers"
        answers.touch()
        answers.chmod(0o666)
        text = script(
            mark,
            ["--threads", str(self._threads), *arguments],
            archive=f"{INSIDE}/in/{self._archive}",
            boot=f"{INSIDE}/in/boot.py",
            answers=f"{INSIDE}/out/{answers.name}",
            python=self.python,
            asked=self._asked,
            variables={**self._variables, **variables},
            threads=self._threads,
            clear_locks=clear,
        )
        self._bring(f"{mark}.sh", text.encode())
        process = RemoteProcess(
            self._command(self._name(mark), f"{mark}.sh"), mark, environment=self.engine.environment(), answers=answers, heard=self._found
        )
        with self._lock:
            self._live[mark] = process
        return process

    def end(self, mark: str) -> None:
        """Removes an agent's container: it goes on when the client alone is killed."""
        with self._lock:
            process = self._live.pop(mark, None)
        if process is not None and not (process.settled and process.returncode is not None):
            self.engine.remove_container(self._name(mark))
        for path in (self._folder / "in" / f"{mark}.sh", self._folder / "out" / f"{mark}.answers"):
            with contextlib.suppress(OSError):
                path.unlink()

    def close(self) -> None:
        """Removes every container of this launcher, and what they wrote: that may be another user's, who owns it inside."""
        for mark in list(self._live):
            self.end(mark)
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._folder.exists() and self.engine.keeps_containers:
            mount = Mount(self._folder, f"{INSIDE}/scratch", True)
            argv = ["/bin/sh", "-c", f"rm -rf {INSIDE}/scratch/home/* {INSIDE}/scratch/home/.[!.]* {INSIDE}/scratch/out/*"]
            self.engine.call(*self.engine.command(self.image.id, argv, mounts=[mount], devices=["--user=0"], stdin=False)[1:])
            shutil.rmtree(self._folder, ignore_errors=True)

    def _bring(self, name: str, data: bytes | None) -> None:
        path = self._folder / "in" / name
        if data is not None:
            path.write_bytes(data)
        path.chmod(0o644)

    def _name(self, mark: str) -> str:
        return f"kvcheck-{os.getpid()}-{mark}"

    def _command(self, name: str, file: str) -> list[str]:
        # By id where there is one: a tag may move while the run goes on.
        image = self.image.id if self.engine.keeps_containers else self.image.reference
        argv = ["/bin/sh", f"{INSIDE}/in/{file}"]
        return self.engine.command(image, argv, mounts=self._mounts, name=name, labels={LABEL: self._owner}, devices=self._devices)

    def _found(self, python: str) -> None:
        self.python = self.python or python


def provider_mounts(providers: Sequence[str]) -> list[Mount]:
    """What containers have to see for providers of the user's: FILE.py and NAME@DIR, read-only, where they are on this machine.

    Args:
        providers: as typed; a path that is not on this machine is taken to be in the image.
    """
    paths = []
    for provider in providers:
        name = provider.removeprefix("fault:") if provider.startswith("fault:") else absolute_provider(provider)
        path = name if name.endswith(".py") else name.partition("@")[2]
        if path and os.path.exists(path):
            paths.append(path)
    return [Mount(Path(path), path) for path in dict.fromkeys(paths)]
