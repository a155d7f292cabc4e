"""A registry on this machine, and images in it that podman has to pull."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import pytest

CONFIG = """version: 0.1
storage:
  filesystem: {{rootdirectory: {folder}}}
http: {{addr: "127.0.0.1:{port}"}}
log: {{level: error, accesslog: {{disabled: true}}}}
"""


@dataclass
class Here:
    """A registry on 127.0.0.1.

    Args:
        host: 127.0.0.1:PORT.
        engine: podman.
        images: makes images in its store.
        folder: where it keeps what it has.
    """

    host: str
    engine: object
    images: object
    folder: Path

    def put(self, name: str, *tags: str, size: int = 0, **made) -> str:
        """Makes an image of some bytes that nothing compresses, pushes it, and takes it off this machine; its id."""
        noise = base64.b85encode(os.urandom(size * 4 // 5)).decode()
        identifier = self.images.nightly(f"{self.host}/{name}:{tags[0]}", {"/noise": noise, **made.pop("files", {})}, **made)
        for tag in tags:
            self.call("tag", identifier.removeprefix("sha256:"), f"{self.host}/{name}:{tag}")
            self.call("push", "--quiet", "--tls-verify=false", f"{self.host}/{name}:{tag}")
        for tag in tags:
            self.call("rmi", f"{self.host}/{name}:{tag}")
        return identifier

    def call(self, *words: str) -> str:
        """One of the engine's commands, which must end well."""
        done = self.engine.call(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="session")
def registry(images, tmp_path_factory):
    """A registry of this session's own; skips where there is none to start."""
    program = shutil.which("docker-registry")
    if not program or not shutil.which("skopeo"):
        pytest.skip(f"{'skopeo' if program else 'docker-registry'} is not installed")
    folder = tmp_path_factory.mktemp("registry")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "config.yml").write_text(CONFIG.format(folder=folder / "data", port=port))
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen([program, "serve", str(folder / "config.yml")], stdout=log, stderr=log)
    try:
        _wait(f"http://127.0.0.1:{port}/v2/", server, folder / "log")
        yield Here(f"127.0.0.1:{port}", images.engine, images, folder / "data")
    finally:
        server.kill()
        server.wait(10)


@pytest.fixture(autouse=True)
def tidy(request):
    """What a test pulled is gone before the next one."""
    yield
    if "registry" in request.fixturenames:
        here = request.getfixturevalue("registry")
        for image in here.engine.images():
            if not image.tags or all(tag.startswith(here.host) for tag in image.tags):
                here.engine.call("rmi", "--force", image.id.removeprefix("sha256:"))


def _wait(address: str, server: subprocess.Popen, log: Path) -> None:
    for _ in range(100):
        assert server.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(address, timeout=1).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise AssertionError(f"the registry did not answer: {log.read_text()}")


KERNEL = '''# {kind}
"""A kernel package of a nightly image."""

import torch


def topk_per_row(logits, context_lens, *, topk, next_n, out, alloc):
    """Positions of the largest logits."""
    for row in range(out.shape[0]):
        length = int(context_lens[row // next_n])
        out[row] = -1
        out[row, :topk] = logits[row, :length].topk(topk).indices.int()
    {planted}
'''
PLANTED = {
    "right": "",
    "wrong": "out[:, 0] = out[:, 1]",
    "hangs": "while True: pass",
    "no start": "",
    "flaky": "",
    "other": "raise RuntimeError('another bug altogether')",
}
PACKAGE = "/opt/nightly/nightly_kernel"
INSIDE = "/usr/lib/python3/dist-packages"
APRIL = 1775174400
"""2026-04-03 00:00 UTC."""


def kernel(kind: str, note: str = "") -> dict[str, str]:
    """An image's files: its kernel package, by what is planted in it."""
    if kind == "lacks":
        return {"/opt/nightly/other/__init__.py": note}
    return {f"{PACKAGE}/__init__.py": KERNEL.format(kind=kind, planted=PLANTED[kind]), f"{PACKAGE}/build.py": f"NIGHT = {note!r}\n"}


@pytest.fixture(scope="session")
def parent(images) -> str:
    """An image with a Python of its own, in which agents are the double's; with torch mounted over /usr they are real."""
    files = {
        f"{INSIDE}/double.py": (Path(__file__).parent / "double.py").read_text(),
        f"{INSIDE}/double.pth": "import double\n",
        f"{INSIDE}/torch/__init__.py": "",
    }
    images.nightly("localhost/double:1", files, parent=images.base(), env={"PYTHONPATH": "/opt/nightly"})
    return "localhost/double:1"


@pytest.fixture(scope="session")
def make(images, parent):
    """Makes nightlies of a repository: kinds by tag, one a night; ids by tag."""

    def call(repository: str, kinds: dict[str, str], **same) -> dict[str, str]:
        made = {}
        for number, (tag, kind) in enumerate(kinds.items()):
            files, created = kernel(kind, same.get("note", tag)), APRIL + number * 86400
            env = {"PYTHONHOME": "/nowhere"} if kind == "no start" else None
            made[tag] = images.nightly(f"localhost/{repository}:{tag}", files, parent=parent, created=created, env=env)
        return made

    return call


@pytest.fixture(scope="session")
def history(tmp_path_factory):
    """A repository of five commits, oldest first."""
    if not shutil.which("git"):
        pytest.skip("git is not on PATH")
    folder = tmp_path_factory.mktemp("history")
    who = {f"GIT_{role}_{what}": "a@b.invalid" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

    def git(*words: str) -> str:
        environ = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull}
        return subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True, env=environ).stdout.strip()

    git("init", "--quiet", "-b", "main")
    commits = []
    for number in range(5):
        git("commit", "--quiet", "--allow-empty", "-m", f"commit {number}")
        commits.append(git("rev-parse", "HEAD"))
    return folder, commits


@pytest.fixture(scope="session")
def planted():
    """The files of an image by what is planted in its kernel."""
    return kernel
