"""Command lines of engines, word for word: those that run here and those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvcheck.execute.containers import devices, find
from kvcheck.execute.containers.apptainer import Apptainer, Singularity, image_name
from kvcheck.execute.containers.docker import Docker, Podman, read_image
from kvcheck.execute.containers.engine import Image, Mount, repository
from kvcheck.execute.containers.launcher import ContainerLauncher, provider_mounts
from kvcheck.execute.errors import StartError, UsageError
from kvcheck.flow.sites import labels
from kvcheck.flow.where import Where

MOUNTS = [Mount(Path("/scratch/in"), "/kvcheck/in"), Mount(Path("/scratch/home"), "/kvcheck/home", True)]
GIVEN = {"mounts": MOUNTS, "variables": {"A": "b c"}, "name": "kvcheck-1-ab", "labels": {"kvcheck.owner": "me"}}
ID = "sha256:" + "ab" * 32


@pytest.fixture
def no_selinux(monkeypatch):
    monkeypatch.setattr("kvcheck.execute.containers.docker.os.path.exists", lambda path: False)


@pytest.mark.parametrize("engine", [Docker("/usr/bin/docker"), Podman("/usr/bin/podman")], ids=["docker", "podman"])
def test_docker_and_podman(engine, no_selinux):
    rocm = ["--device=/dev/kfd", "--device=/dev/dri", "--group-add=44", "--group-add=109", "--security-opt=seccomp=unconfined"]
    command = engine.command(ID, ["/bin/sh", "/kvcheck/in/x.sh"], devices=rocm, **GIVEN)
    assert command == [
        engine.path, "run", "--rm", "--interactive", "--network=none", "--workdir=/", "--log-driver=none", "--name", "kvcheck-1-ab",
        "--label", "kvcheck.owner=me", "--env", "A=b c", "--volume", "/scratch/in:/kvcheck/in:ro",
        "--volume", "/scratch/home:/kvcheck/home", *rocm, "--entrypoint", "/bin/sh", "ab" * 32, "/kvcheck/in/x.sh",
    ]  # fmt: skip
    assert engine.command("a", ["true"], stdin=False)[:4] == [engine.path, "run", "--rm", "--network=none"]


def test_a_host_with_selinux(monkeypatch):
    monkeypatch.setattr("kvcheck.execute.containers.docker.os.path.exists", lambda path: path == "/sys/fs/selinux/enforce")
    assert "--security-opt=label=disable" in Podman("podman").command("a", ["true"])


def test_apptainer_after_its_documentation(tmp_path):
    file = tmp_path / "nightly.sif"
    file.write_bytes(b"x")
    command = Apptainer("/usr/bin/apptainer").command(str(file), ["/bin/sh", "/kvcheck/in/x.sh"], devices=["--rocm"], **GIVEN)
    assert command == [
        "/usr/bin/apptainer", "--quiet", "exec", "--no-home", "--writable-tmpfs", "--net", "--network=none", "--pwd", "/", "--rocm",
        "--bind", "/scratch/in:/kvcheck/in:ro", "--bind", "/scratch/home:/kvcheck/home", "--env", "A=b c", str(file),
        "/bin/sh", "/kvcheck/in/x.sh",
    ]  # fmt: skip
    assert "--cleanenv" not in command


def test_apptainer_names_files_and_the_environment_of_the_host(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/srv/mine")
    monkeypatch.setenv("ROCM_PATH", "/opt/rocm")
    engine = Singularity("/usr/bin/singularity")
    assert "PYTHONPATH" not in engine.environment() and engine.environment()["ROCM_PATH"] == "/opt/rocm"
    assert engine.environment()["PYTHONNOUSERSITE"] == "1"
    assert image_name("rocm/vllm-dev:nightly") == "docker://rocm/vllm-dev:nightly"
    assert image_name("oras://host/a") == "oras://host/a" and image_name("/images/a.sif") == "/images/a.sif"
    assert image_name(str(tmp_path)) == str(tmp_path)
    with pytest.raises(StartError, match="there is no image file /images/a.sif"):
        engine.ensure("/images/a.sif")
    file = tmp_path / "a.sif"
    file.write_bytes(b"12345")
    first = engine.inspect(str(file))
    file.write_bytes(b"123456")
    assert first.size == 5 and first.id != engine.inspect(str(file)).id


def test_an_apptainer_agent_gets_a_temporary_folder_of_its_own(tmp_path):
    file = tmp_path / "a.sif"
    file.write_bytes(b"x")
    notes = []
    launcher = ContainerLauncher(Apptainer("/usr/bin/apptainer"), str(file), tmp_path, device="cpu", note=notes.append)
    assert f"--bind {tmp_path}/containers/tmp:/tmp " in launcher.shown and notes == [f"agents are started by: {launcher.shown}"]
    launcher.close()
    assert not (tmp_path / "containers").exists()


def test_devices_follow_the_host(monkeypatch):
    monkeypatch.setattr(devices, "_groups", lambda: ["44", "109"])
    amd, nvidia = (lambda path: path == "/dev/kfd"), (lambda path: path == "/dev/nvidiactl")
    groups = ["--group-add=44", "--group-add=109", "--security-opt=seccomp=unconfined"]
    assert devices.flags("docker", there=amd) == ["--device=/dev/kfd", "--device=/dev/dri", *groups]
    assert devices.flags("podman", there=amd, root=True) == ["--device=/dev/kfd", "--device=/dev/dri", *groups]
    assert devices.flags("podman", there=amd, root=False)[2:] == ["--group-add=keep-groups", "--security-opt=seccomp=unconfined"]
    assert devices.flags("docker", there=nvidia) == ["--gpus=all"]
    assert devices.flags("podman", there=nvidia) == ["--device=nvidia.com/gpu=all"]
    assert devices.flags("apptainer", there=amd) == ["--rocm"] and devices.flags("singularity", there=nvidia) == ["--nv"]
    assert devices.flags("docker", there=lambda path: False) == []
    for device in ("cpu", "gfx950-emulated"):
        assert devices.flags("docker", device, there=amd) == []


def test_numbers_of_groups_come_from_the_host(monkeypatch):
    known = {"video": 44, "render": 109}
    monkeypatch.setattr(devices.grp, "getgrnam", lambda name: type("Group", (), {"gr_gid": known[name]}))
    monkeypatch.setattr(devices, "_listed", lambda folder: [])
    assert devices._groups()[:2] == ["44", "109"]


@pytest.mark.parametrize(
    ("reference", "digests", "digest", "pinned"),
    [
        ("vllm/rocm:nightly", ["docker.io/vllm/rocm@sha256:1"], "sha256:1", "vllm/rocm@sha256:1"),
        ("localhost:5000/a:1", ["other/a@sha256:9", "localhost:5000/a@sha256:2"], "sha256:2", "localhost:5000/a@sha256:2"),
        ("a@sha256:3", ["a@sha256:4"], "sha256:3", "a@sha256:3"),
        ("a:1", [], None, "a:1"),
        (ID[:19], ["a@sha256:4"], "sha256:4", ID[:19]),
    ],
)
def test_an_image_by_digest(reference, digests, digest, pinned):
    data = {
        "Id": ID,
        "RepoTags": None,
        "RepoDigests": digests,
        "Created": "2026-04-08T00:00:00Z",
        "Config": {"Env": ["A=b=c"], "Labels": None},
    }
    image = read_image(reference, data)
    assert (image.digest, image.pinned, image.id, image.env, image.labels) == (digest, pinned, ID, {"A": "b=c"}, {})


def test_short_names_of_images():
    commits = [f"vllm/vllm-openai-rocm:nightly-{'ab' * 20}", f"vllm/vllm-openai-rocm:nightly-{'cd' * 20}"]
    assert list(labels(commits).values()) == ["vllm-openai-rocm:nightly-abababababab", "vllm-openai-rocm:nightly-cdcdcdcdcdcd"]
    assert labels(["a/x:1", "b/x:1", "b/y"]) == {"a/x:1": "a/x:1", "b/x:1": "b/x:1", "b/y": "y"}
    assert labels([f"host:5000/x@sha256:{'ab' * 32}"]) == {f"host:5000/x@sha256:{'ab' * 32}": "x@sha256:abababababab"}
    assert repository("host:5000/a/b:tag@sha256:1") == "host:5000/a/b" and repository("ubuntu") == "ubuntu"


def test_engines_are_found_in_order_and_refused_with_reasons(tmp_path, monkeypatch):
    for name, status in (("docker", 1), ("podman", 0)):
        (tmp_path / name).write_text(
            f"#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho 'Cannot connect to the daemon' >&2\nexit {status}\n"
        )
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find.find_engine().path == str(tmp_path / "podman")
    with pytest.raises(StartError, match="docker cannot be used here: Cannot connect to the daemon"):
        find.find_engine("docker")
    with pytest.raises(
        UsageError, match="expected docker, podman, apptainer, singularity or a path to one, got 'podmann'; nearest: podman"
    ):
        find.find_engine("podmann")
    with pytest.raises(UsageError, match="--engine: /none/podman is not there"):
        find.find_engine("/none/podman")
    (tmp_path / "podman").write_text("#!/bin/sh\necho 'no store' >&2\nexit 1\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StartError, match=r"(?s)docker: .*podman: .*\n  apptainer: not on PATH"):
        find.find_engine()


def test_docker_that_is_podman_is_taken_for_podman(tmp_path):
    (tmp_path / "docker").write_text("#!/bin/sh\necho podman version 4.3.1\n")
    (tmp_path / "docker").chmod(0o755)
    assert isinstance(find.find_engine(str(tmp_path / "docker")), Podman)


def test_a_users_own_files_are_seen_inside(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "aiter").mkdir()
    monkeypatch.chdir(tmp_path)
    mounts = provider_mounts(["./mine.py", "aiter@aiter", "triton", "/in/the/image.py", "fault:mask_off_by_one", "./mine.py"])
    assert [str(mount) for mount in mounts] == [f"{tmp_path}/mine.py:{tmp_path}/mine.py:ro", f"{tmp_path}/aiter:{tmp_path}/aiter:ro"]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (Where(images=("a",), prefix="ssh h"), "--exec: expected it without --image"),
        (Where(engine="podman"), "--engine: expected --image beside it"),
        (Where(mounts=("/usr",)), "--mount: expected --image beside it"),
        (Where(images=("a",), mounts=("/no/such/folder",)), "--mount: expected DIR or DIR:AT with a DIR that is there"),
        (Where(images=("a",), mounts=("/usr:usr",)), "--mount: expected an absolute path after the colon"),
        (Where(prefix="ssh 'h"), "--exec: No closing quotation"),
        (Where(prefix=""), "--exec: expected a command"),
    ],
)
def test_what_cannot_be_is_refused(where, message):
    with pytest.raises(UsageError, match=message):
        where.check()


def test_where_is_said_again():
    where = Where(("a", "b"), None, "podman", ("--gpus=1",), ("/usr",))
    assert where.again() == ["--image", "a", "--image", "b", "--engine", "podman", "--engine-option=--gpus=1", "--mount", "/usr"]
    assert Where(prefix="srun -n1 --").again() == ["--exec", "srun -n1 --"] and Where().again() == []


def test_an_image_goes_by_its_content():
    assert Image("a:1", "sha256:1", "sha256:2").key == "sha256:1"
