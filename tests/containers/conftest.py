"""podman with a store of its own: nothing that is on this machine is seen, used or removed."""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from kvcheck.execute.containers.docker import Podman
from kvcheck.execute.containers.engine import Engine

CONTAINERS = """[containers]
default_ulimits = ["nofile={nofile}:{nofile}", "nproc={nproc}:{nproc}"]
[engine]
runtime = "{runtime}"
cgroup_manager = "cgroupfs"
events_logger = "none"
tmp_dir = "{folder}/libpod"
lock_type = "file"
"""
"""The last two are otherwise one for the whole machine: what empties one store would take them from all others."""

STORAGE = """[storage]
driver = "{driver}"
graphroot = "{folder}/graph"
runroot = "{folder}/run"
"""

REGISTRIES = """unqualified-search-registries = []
[[registry]]
prefix = "127.0.0.1"
location = "127.0.0.1"
insecure = true
"""


def _beside(name: str) -> ModuleType:
    """A module of this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(f"containers_{name}", Path(__file__).parent / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _limit(kind: int, most: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return most if hard == resource.RLIM_INFINITY else min(hard, most)


@pytest.fixture(scope="session")
def podman() -> Iterator[Engine]:
    """podman on a store in a folder of this session, for this process and those it starts; skips with the reason where it does not work."""
    path = shutil.which("podman")
    if path is None:
        pytest.skip("podman is not installed")
    if os.geteuid() != 0:
        pytest.skip("a podman store of its own needs root here: bind mounts of other users' folders do not work without")
    runtime = next((name for name in ("runc", "crun") if shutil.which(name)), None)
    if runtime is None:
        pytest.skip("podman is here, and neither runc nor crun")
    folder = Path(tempfile.mkdtemp(prefix="kvcheck-podman-"))
    limits = {"nofile": _limit(resource.RLIMIT_NOFILE, 4096), "nproc": _limit(resource.RLIMIT_NPROC, 4096)}
    (folder / "containers.conf").write_text(CONTAINERS.format(runtime=runtime, folder=folder, **limits))
    (folder / "registries.conf").write_text(REGISTRIES)
    files = {
        "CONTAINERS_CONF": "containers.conf",
        "CONTAINERS_STORAGE_CONF": "storage.conf",
        "CONTAINERS_REGISTRIES_CONF": "registries.conf",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, file in files.items():
            patch.setenv(name, str(folder / file))
        patch.delenv("CONTAINER_HOST", raising=False)
        engine = Podman(path)
        problems = []
        for driver in ("overlay", "vfs"):
            (folder / "storage.conf").write_text(STORAGE.format(driver=driver, folder=folder / driver))
            problems.append(engine.problem())
            if problems[-1] is None:
                break
        try:
            if problems[-1] is not None:
                pytest.skip(f"podman does not work here: {'; '.join(map(str, problems))}")
            store = engine.call("info", "--format", "{{.Store.GraphRoot}}").stdout.strip()
            assert store.startswith(str(folder)), f"podman uses {store}, which is not ours to empty"
            yield engine
            engine.call("system", "reset", "--force")
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def torch_mounts() -> list:
    """What an image needs mounted to run the tests' own Python with torch."""
    return _beside("images").torch_mounts()


@pytest.fixture(scope="session")
def mount_words() -> list[str]:
    """The same as words of kvcheck's command line."""
    return _beside("images").mount_words()


@pytest.fixture(scope="session")
def images(podman: Engine):
    """Makes images in that store."""
    made = _beside("images").Images(podman)
    reason = made.problem()
    if reason:
        pytest.skip(f"podman starts no container here: {reason}")
    return made


@pytest.fixture
def kvcheck(tmp_path, podman: Engine):
    """Runs a command in an empty folder, on the tests' store; `run` is run.json where --out was given."""

    def call(*words, timeout=380, **env):
        command = [sys.executable, "-m", "kvcheck.cli.main", *map(str, words)]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=tmp_path, timeout=timeout, env={**os.environ, **env}, check=False
        )
        out = tmp_path / words[words.index("--out") + 1] / "run.json" if "--out" in words else None
        run = json.loads(out.read_text()) if out and out.is_file() else None
        return SimpleNamespace(code=done.returncode, out=done.stdout, err=done.stderr, run=run)

    return call
