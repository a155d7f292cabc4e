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
    """

    host: str
    engine: object
    images: object

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
        yield Here(f"127.0.0.1:{port}", images.engine, images)
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
