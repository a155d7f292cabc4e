"""The docker command line, talking to podman's service: its words, its answers and its own way to keep containers."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from kvcheck.cases.model import Case
from kvcheck.execute.containers.docker import Docker
from kvcheck.execute.containers.engine import ImageMissing, Mount
from kvcheck.execute.containers.launcher import ContainerLauncher
from kvcheck.execute.containers.owner import LABEL, identity
from kvcheck.execute.containers.run_in import find_python, run_in
from kvcheck.execute.errors import StartError
from kvcheck.execute.executor import Executor

DOUBLE = Path(__file__).parents[1] / "planted" / "agent_double.py"
TORCH = {"/usr/lib/python3/dist-packages/torch.py": "# in place of torch\n"}


@pytest.fixture
def docker(podman, tmp_path, monkeypatch):
    """docker, with podman in its daemon's place."""
    path = shutil.which("docker")
    if path is None:
        pytest.skip("there is no docker command here")
    socket = f"unix://{tmp_path}/docker.sock"
    with subprocess.Popen([podman.path, "system", "service", "--time=0", socket], stderr=subprocess.DEVNULL) as service:
        monkeypatch.setenv("DOCKER_HOST", socket)
        engine = Docker(path)
        deadline = time.monotonic() + 30
        while engine.problem() and time.monotonic() < deadline:
            time.sleep(0.1)
        try:
            if engine.problem():
                pytest.skip(f"docker does not talk to podman's service: {engine.problem()}")
            yield engine
        finally:
            service.terminate()
            service.wait(10)


def case(*act: str) -> Case:
    params = {"act": list(act), "premise": "holds"}
    return Case(id=f"c[act={'+'.join(act)}]", case_file="c", op="topk_per_row", provider="double", params=params)


def test_docker_runs_looks_and_clears_up(docker, images, tmp_path):
    image = images.nightly("localhost/docker:1", TORCH, parent=images.base(), labels={"night": "1"})
    assert docker.inspect("localhost/docker:1").id == image and docker.inspect(image).labels["night"] == "1"
    assert image in [other.id for other in docker.images()]
    with pytest.raises(ImageMissing, match="docker has no image"):
        docker.inspect("localhost/docker:none")
    with pytest.raises(StartError, match="docker could not fetch 127.0.0.1:1/none"):
        docker.pull("127.0.0.1:1/none")
    (tmp_path / "given").write_text("what is seen")
    done = run_in(docker, image, ["cat", "/given"], mounts=[Mount(tmp_path / "given", "/given")])
    assert (done.returncode, done.stdout) == (0, b"what is seen"), done.stderr
    assert find_python(docker, image) == "/usr/bin/python3"
    with pytest.raises(subprocess.TimeoutExpired):
        run_in(docker, image, ["sleep", "60"], timeout=3)
    left = docker.call("run", "--detach", "--name", "left", "--label", f"{LABEL}={identity()}", image, "sleep", "60")
    assert left.returncode == 0, left.stderr
    assert docker.remove_leftovers() == []
    docker.remove_own(identity())
    assert docker.call("ps", "--all", "--quiet").stdout.split() == []


def test_an_agent_in_docker(docker, images, monkeypatch):
    monkeypatch.setattr("kvcheck.execute.zipapp.sources", lambda: {"__main__.py": DOUBLE.read_bytes()})
    image = images.nightly("localhost/docker:1", TORCH, parent=images.base(), labels={"night": "1"})
    launch = {"launcher": lambda folder: ContainerLauncher(docker, image, folder, device="cpu"), "jobs": 1, "spare": False, "timeout": 3.0}
    with Executor(**launch) as executor:
        acts = (["print:x"], ["kernel", "signal:SIGSEGV"], ["kernel", "sleep:60"], ["verdict:mismatch"])
        rows = [row.result(90) for row in [executor.submit(case(*act)) for act in acts]]
    assert [row["verdict"] for row in rows] == ["pass", "crash", "timeout", "mismatch"], [row["message"] for row in rows]
    assert "SIGSEGV in phase kernel" in rows[1]["message"]
    assert docker.call("ps", "--all", "--quiet").stdout.split() == []
