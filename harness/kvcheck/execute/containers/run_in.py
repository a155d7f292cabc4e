"""One command inside an image, from start to end: what `whatis` and builds need."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from kvcheck.execute.containers.engine import Engine, Mount, said
from kvcheck.execute.containers.owner import LABEL, identity
from kvcheck.execute.errors import StartError
from kvcheck.execute.remote import no_python
from kvcheck.execute.script import find_script


def run_in(
    engine: Engine,
    image: str,
    argv: Sequence[str],
    *,
    mounts: Sequence[Mount] = (),
    variables: Mapping[str, str] = {},
    timeout: float = 600.0,
    stdin: bytes = b"",
    devices: Sequence[str] = (),
) -> subprocess.CompletedProcess[bytes]:
    """Runs a command in a new container: network off, in `/`, with a HOME that is empty and removed afterwards.

    Args:
        engine: that runs it.
        image: reference or id of an image that is here.
        argv: program and arguments.
        mounts: what it sees of this machine.
        variables: over the image's own.
        timeout: seconds; its container is removed then.
        stdin: what it reads.
        devices: the engine's words for devices.

    Returns:
        done: status, stdout and stderr. 125 to 127 are the engine's own: it did not start.

    Raises:
        StartError: the engine itself cannot be started.
        subprocess.TimeoutExpired: it took too long.
    """
    name = f"kvcheck-{os.getpid()}-{secrets.token_hex(8)}"
    with tempfile.TemporaryDirectory(prefix="kvcheck-", ignore_cleanup_errors=True) as folder:
        home = Path(folder) / "home"
        home.mkdir()
        home.chmod(0o1777)
        command = engine.command(
            image, argv, mounts=[Mount(home, "/kvcheck/home", True), *mounts], variables={**variables, "HOME": "/kvcheck/home"}, name=name,
            labels={LABEL: identity()}, devices=devices,
        )  # fmt: skip
        pipe = subprocess.PIPE
        try:
            client = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=os.sep, env=engine.environment(), start_new_session=True
            )
        except OSError as error:
            raise StartError(f"{engine.name} could not be started: {error}", final=True) from error
        try:
            out, err = client.communicate(stdin, timeout=timeout)
        except BaseException:
            os.killpg(client.pid, signal.SIGKILL)
            engine.remove_container(name)
            client.communicate()
            raise
    return subprocess.CompletedProcess(command, client.returncode, out, err)


def find_python(engine: Engine, image: str, *, mounts: Sequence[Mount] = (), timeout: float = 600.0) -> str:
    """The Python of an image that imports torch.

    Args:
        engine: that runs it.
        image: reference or id of an image that is here.
        mounts: what it sees of this machine.
        timeout: seconds.

    Raises:
        StartError: there is none, and what each that was tried said.
    """
    mark = secrets.token_hex(8)
    try:
        done = run_in(engine, image, ["/bin/sh", "-c", find_script(mark)], mounts=mounts, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise StartError(f"no Python of {image} imported torch within {timeout:g} s", final=True) from None
    tried = []
    for line in done.stdout.decode(errors="replace").splitlines():
        _, token, text = line.partition(f"kvcheck:{mark} ")
        if token and text.startswith("python "):
            return text.removeprefix("python ")
        if token and text.startswith("tried "):
            tried.append(text.removeprefix("tried "))
    if not tried and done.returncode != 3:
        raise StartError(f"{engine.name} could not start a container of {image}: {said(done)}", final=True)
    raise StartError(f"{image}: {no_python(tried)}", final=True)
