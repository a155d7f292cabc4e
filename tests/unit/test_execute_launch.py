"""Which interpreter runs the agents, what they inherit, and how a provider is named for them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kvcheck.execute import launch, memory, zipapp
from kvcheck.execute.errors import StartError, UsageError
from kvcheck.execute.launch import absolute_provider, agent_environment, choose_python


def fake_python(folder: Path, body: str) -> str:
    """A `python3` in a folder of its own, which is put on PATH by the test."""
    folder.mkdir(parents=True)
    path = folder / "python3"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def no_torch(monkeypatch):
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name, *rest: None)


def test_the_default_is_kvchecks_own_where_that_has_torch():
    assert choose_python(None) == sys.executable


def test_auto_is_the_first_python3_on_the_path_that_imports_torch(tmp_path, monkeypatch):
    fake_python(tmp_path / "broken", "echo 'ImportError: libamdhip64.so.6' >&2; exit 1")
    fake_python(tmp_path / "first", "echo /opt/first/python3")
    fake_python(tmp_path / "second", "echo /opt/second/python3")
    monkeypatch.setenv("PATH", os.pathsep.join(str(tmp_path / name) for name in ("nowhere", "broken", "first", "second")) + ":/bin")
    assert choose_python("auto") == "/opt/first/python3"


def test_auto_falls_back_to_kvchecks_own(tmp_path, monkeypatch):
    fake_python(tmp_path / "broken", "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "broken"))
    assert choose_python("auto") == sys.executable


@pytest.mark.usefixtures("no_torch")
def test_without_torch_anywhere_the_message_names_what_was_tried(tmp_path, monkeypatch):
    path = fake_python(tmp_path / "broken", "echo 'ImportError: libamdhip64.so.6' >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "broken") + ":/bin")
    for python in (None, "auto"):
        with pytest.raises(StartError, match="--python PATH") as caught:
            choose_python(python)
        assert f"{path}: ImportError: libamdhip64.so.6" in str(caught.value)
        assert sys.executable in str(caught.value)
        assert caught.value.exit_code == 3


def test_a_named_interpreter_must_be_there_and_have_torch(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="not there or not executable") as caught:
        choose_python(str(tmp_path / "no_such_python"))
    assert caught.value.exit_code == 2
    path = fake_python(tmp_path / "bare", "echo 'AssertionError: it has no torch' >&2; exit 1")
    with pytest.raises(StartError, match="it has no torch"):
        choose_python(path)
    monkeypatch.chdir(tmp_path)
    Path("linked").symlink_to(fake_python(tmp_path / "good", "echo /opt/good/python3"))
    assert choose_python("./linked") == str(tmp_path / "linked"), "a link is what makes an environment: it is not resolved"


def test_an_agent_does_not_see_the_fronts_sources_or_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = [str(zipapp._folder(name).parent) for name in ("kvcheck", "kvcheck_references")]
    given = {"PYTHONPATH": os.pathsep.join([own[0], "relative", "/opt/kernels", own[1]]), "PYTHONINSPECT": "1", "HIP_VISIBLE_DEVICES": "2"}
    environ = agent_environment(given, 3)
    assert environ["PYTHONPATH"] == os.pathsep.join([str(tmp_path / "relative"), "/opt/kernels"])
    assert "PYTHONINSPECT" not in environ
    assert environ["HIP_VISIBLE_DEVICES"] == "2"
    assert environ["OMP_NUM_THREADS"] == "3"
    assert "PYTHONPATH" not in agent_environment({"PYTHONPATH": own[0]}, 1)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("triton", "triton"),
        ("aiter:stage1", "aiter:stage1"),
        ("mine.py", "/base/mine.py"),
        ("../mine.py", "/mine.py"),
        ("/abs/mine.py", "/abs/mine.py"),
        ("aiter@src", "aiter@/base/src"),
        ("aiter:ragged@./src", "aiter:ragged@/base/src"),
        ("fault:wrong_past=2048", "fault:wrong_past=2048"),
    ],
)
def test_providers_are_found_from_any_folder(written, wanted):
    assert absolute_provider(written, Path("/base")) == wanted


def test_a_share_of_memory_can_be_overridden(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 100 * memory.GIB)
    monkeypatch.delenv("KVCHECK_MEMORY_LIMIT", raising=False)
    assert memory.share(4) == 20 * memory.GIB
    assert memory.share(100) == memory.LEAST
    monkeypatch.setenv("KVCHECK_MEMORY_LIMIT", "0")
    assert memory.share(4) == 0


def test_jobs_are_what_cores_and_memory_carry(monkeypatch):
    monkeypatch.setattr(memory, "cores", lambda: 64)
    monkeypatch.setattr(memory, "available", lambda: 100 * memory.GIB)
    assert (memory.default_jobs("cpu"), memory.default_jobs("cuda")) == (4, 1)
    monkeypatch.setattr(memory, "available", lambda: 5 * memory.GIB)
    assert memory.default_jobs("cpu") == 2
    monkeypatch.setattr(memory, "available", lambda: 0)
    assert memory.default_jobs("cpu") == 1
    assert not memory.room_for_another()


def test_a_control_groups_limit_counts(monkeypatch):
    files = {
        "/proc/meminfo": "MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n",
        "/sys/fs/cgroup/memory.max": "4000000000\n",
        "/sys/fs/cgroup/memory.current": "3000000000\n",
        "/sys/fs/cgroup/memory.stat": "anon 5\ninactive_file 500000000\n",
    }
    monkeypatch.setattr(memory, "_read", lambda path: files.get(path, ""))
    assert memory.available() == 1_500_000_000
    files["/sys/fs/cgroup/memory.max"] = "max\n"
    assert memory.available() == 8_000_000 * 1024
