"""What becomes of agents in containers, with a double of the agent: no torch, a second a container."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from kvcheck.agent import boot
from kvcheck.cases.model import Case
from kvcheck.execute.containers.launcher import ContainerLauncher
from kvcheck.execute.executor import Executor

DOUBLE = Path(__file__).parents[1] / "planted" / "agent_double.py"
TORCH = {"/usr/lib/python3/dist-packages/torch.py": "# in place of torch\n"}


@pytest.fixture
def double(monkeypatch):
    """The zip holds a double of the agent."""
    monkeypatch.setattr("kvcheck.execute.zipapp.sources", lambda: {"__main__.py": DOUBLE.read_bytes()})


@pytest.fixture
def execute(podman, images, double):
    """An executor on an image that has a double's torch; its launcher is `launchers[-1]`."""
    image = images.nightly("localhost/double:1", TORCH, parent=images.base())
    with contextlib.ExitStack() as stack:

        def make(**options):
            def launcher(folder):
                made.append(ContainerLauncher(podman, image, folder, device="cpu"))
                return made[-1]

            options = {"jobs": 1, "timeout": 20.0, "startup_timeout": 60.0, "spare": False, **options}
            return stack.enter_context(Executor(launcher=launcher, **options))

        made = make.launchers = []
        yield make
    assert podman.call("ps", "--all", "--quiet").stdout.split() == []


def case(*act: str, **params) -> Case:
    given = {"act": list(act), "premise": "holds", **params}
    return Case(id=f"c[act={'+'.join(act)}]", case_file="c", op="topk_per_row", provider="double", params=given)


ENDS = [
    (["kernel", "signal:SIGSEGV"], "crash", "SIGSEGV in phase kernel"),
    (["kernel", "signal:SIGABRT"], "crash", "SIGABRT in phase kernel"),
    (["kernel", "signal:SIGKILL"], "crash", "SIGKILL"),
    (["kernel", "status:9"], "crash", "exited by itself with status 9"),
    (["kernel", "status:139"], "crash", "exited by itself with status 139"),
    (["kernel", "sleep:60"], "timeout", "not finished within 2 s"),
    (["print:what it said", "kernel", "status:1"], "crash", "what it said"),
    (["flood:3000"], "pass", ""),
    (["verdict:mismatch"], "mismatch", "as told"),
]


def test_how_an_agent_ended_is_told_exactly_and_the_next_one_goes_on(execute):
    executor = execute(timeout=2.0)
    rows = [future.result(150) for future in [executor.submit(case(*act)) for act, _, _ in ENDS]]
    assert [row["verdict"] for row in rows] == [verdict for _, verdict, _ in ENDS]
    for row, (_, _, message) in zip(rows, ENDS, strict=True):
        assert message in row["message"], row["message"]
    assert execute.launchers[0].python == "/usr/bin/python3"


def test_a_killed_client_is_a_death_and_leaves_no_container(execute, podman):
    executor = execute(timeout=60.0)
    executor.wait_ready()
    future = executor.submit(case("kernel", "sleep:60"))
    time.sleep(1.0)
    ((mark, process),) = execute.launchers[0]._live.items()
    os.kill(process.pid, signal.SIGKILL)
    row = future.result(60)
    assert row["verdict"] == "crash" and "SIGKILL" in row["message"]
    assert not [name for name in podman.call("ps", "--all", "--format", "{{.Names}}").stdout.split() if mark in name]
    assert executor.submit(case()).result(60)["verdict"] == "pass"


def test_locks_of_a_killed_build_are_gone_for_the_next_agent_and_a_live_ones_are_not(execute, tmp_path):
    executor = execute(timeout=2.0)
    executor.wait_ready()
    build = next(Path(execute.launchers[0]._folder, "home").parent.glob("home")) / ".aiter/jit/build"
    build.mkdir(parents=True)
    lock = build / "lock_module_x"
    lock.write_text("7\nhost\n")
    assert executor.submit(case()).result(60)["verdict"] == "pass" and lock.exists()
    assert executor.submit(case("kernel", "sleep:60")).result(60)["verdict"] == "timeout"
    assert executor.submit(case()).result(60)["verdict"] == "pass" and not lock.exists()


def test_only_small_files_named_like_locks_are_locks(tmp_path):
    for name, size in (("a/lock", 0), ("a/lock_m", 9), ("b/x.lock", 3), ("b/uv.lock", 4000), ("b/block", 1), ("b/locked", 1)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    (tmp_path / "b" / "link.lock").symlink_to("block")
    boot.clear_locks(str(tmp_path))
    assert sorted(path.name for path in tmp_path.rglob("*") if not path.is_dir()) == ["block", "link.lock", "locked", "uv.lock"]


def test_closing_ends_a_container_that_is_at_work(execute, podman):
    executor = execute(timeout=60.0)
    executor.wait_ready()
    executor.submit(case("kernel", "sleep:60"))
    time.sleep(0.5)
    begun = time.monotonic()
    executor.close()
    assert time.monotonic() - begun < 20 and podman.call("ps", "--all", "--quiet").stdout.split() == []


def test_a_container_that_does_not_start_says_what_the_engine_said(podman, images, double):
    image = images.nightly("localhost/double:1", TORCH, parent=images.base())
    with Executor(launcher=lambda folder: ContainerLauncher(podman, image, folder, devices=["--device=/dev/no-such"]), jobs=1) as executor:
        message = executor.submit(case()).result(60)["message"]
    assert "/dev/no-such" in message and "status 126" in message or "status 125" in message, message
