"""What shows only while a provider runs: libraries that were built and loaded, by content; the commit and state of its sources."""

from __future__ import annotations

import ctypes
import datetime
import hashlib
import os
import shutil
import subprocess

import pytest

from kvcheck.agent.environment import builds, checkouts
from kvcheck.agent.environment.seen import Seen, loaded
from kvcheck.flow import record
from kvcheck.flow.options import Options


@pytest.fixture
def library(tmp_path):
    """Copies a library of the system to a place and loads it from there."""

    def load(place):
        wanted = next((path for path in maps() if os.path.basename(path).startswith(("libm.", "libm-"))), None)
        if wanted is None:
            pytest.skip("no libm is loaded that could stand in for a built library")
        target = tmp_path / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(os.path.realpath(wanted), target)
        ctypes.CDLL(str(target))
        return target

    return load


def maps():
    with open("/proc/self/maps") as file:
        return sorted({line.split(maxsplit=5)[5].strip() for line in file if ".so" in line})


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="libraries of a process are read from /proc, which is not here")
def test_libraries_that_a_kernel_package_built_are_told_once_with_their_hash(library):
    seen = Seen()
    before = seen.news("aiter").get("modules", {})
    built = library("aiter/jit/module_mla.so")
    library("elsewhere/libother.so")
    told = seen.news("aiter")["modules"]
    assert [name for name in told if name not in before] == [str(built)]
    assert told[str(built)] == hashlib.sha256(built.read_bytes()).hexdigest()[:16]
    assert "modules" not in seen.news("aiter")
    assert str(built) in loaded() and not any("libother" in path for path in loaded())
    assert Seen().news("triton") == Seen().news("fault:wrong_past=1") == {}


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="libraries of a process are read from /proc, which is not here")
def test_libraries_beside_a_users_file(library, tmp_path):
    kernel = tmp_path / "mine" / "kernel.py"
    kernel.parent.mkdir()
    kernel.write_text("x = 1\n")
    built = library("mine/build/ext.so")
    news = Seen().news(str(kernel))
    assert str(built) in news["modules"]
    assert news["file"] == hashlib.sha256(b"x = 1\n").hexdigest()[:16]


def test_a_changed_checkout_says_so(tmp_path):
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}

    def git(*words):
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "commit.gpgsign=false")
        return subprocess.run(
            ["git", "-C", tmp_path, *identity, *words], env=environment, check=True, capture_output=True, text=True
        ).stdout

    git("init", "-q")
    (tmp_path / "aiter").mkdir()
    kernel = tmp_path / "aiter" / "k.py"
    kernel.write_text("a = 1\n")
    git("add", ".")
    git("commit", "-qm", "first")
    head = git("rev-parse", "HEAD").strip()
    assert checkouts.described(tmp_path / "aiter") == checkouts.revision(tmp_path / "aiter") == head
    (tmp_path / "untracked").write_text("")
    assert checkouts.described(tmp_path) == head
    kernel.write_text("a = 2\n")
    assert checkouts.described(tmp_path / "aiter") == f"{head} (changed)"
    assert Seen().news(f"aiter@{tmp_path}")["source"] == f"{head} (changed)"
    assert checkouts.described(tmp_path / "site-packages" / "aiter") is None


def test_git_that_is_not_there_leaves_the_commit(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("0123456789abcdef0123456789abcdef01234567\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert checkouts.described(tmp_path) == "0123456789abcdef0123456789abcdef01234567"


def test_torch_says_how_it_was_built(monkeypatch):
    import torch

    assert builds.torch_build()["git"] == torch.version.git_version
    rocm = "PyTorch built with:\n  - GCC 13.3\n  - HIP Runtime 7.0.51831\n  - MIOpen 3.5.0\n  - Build settings: BUILD_TYPE=Release, X=1\n"
    monkeypatch.setattr(torch.__config__, "show", lambda: rocm)
    found = builds.torch_build()
    assert {name: found[name] for name in ("hip_runtime", "miopen", "compiler", "type")} == {
        "hip_runtime": "7.0.51831",
        "miopen": "3.5.0",
        "compiler": "GCC 13.3",
        "type": "Release",
    }
    assert "cuda_runtime" not in found
    monkeypatch.setattr(torch.version, "rocm", None, raising=False)
    monkeypatch.setattr(builds, "first", lambda file, pattern: None)
    monkeypatch.setenv("ROCM_VERSION", "7.0.2")
    assert builds.rocm() == "7.0.2"
    monkeypatch.setattr(builds, "first", lambda file, pattern: "7.0.1-43")
    assert builds.rocm() == "7.0.1-43"


def test_what_agents_saw_is_in_the_environment_and_rows_are_the_same_whichever_agent_had_them(monkeypatch):
    monkeypatch.setenv("HOME", "/Users/alice")
    provider = "aiter@/Users/alice/aiter"
    rows = [
        {"id": "a", "provider": provider, "verdict": "pass", "seen": {"modules": {"~/.aiter/m.so": "ab"}, "source": "0123"}},
        {"id": "b", "provider": provider, "verdict": "pass", "seen": {"modules": {"~/.aiter/m.so": "cd", "n.so": "ef"}}},
        {"id": "c", "provider": "/Users/alice/k.py", "verdict": "pass", "seen": {"file": "12"}},
        {"id": "d", "provider": provider, "verdict": "pass"},
    ]
    started = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
    content = record.compose(Options(("c",)), started, 1.0, {"git": {"vllm": "9"}}, rows, [], "c", 0)
    assert content["environment"] == {
        "git": {"vllm": "9", "aiter@~/aiter": "0123"},
        "files": {"~/k.py": "12"},
        "modules": {"n.so": "ef", "~/.aiter/m.so": "ab, cd"},
    }
    assert not any("seen" in row for row in content["cases"])
    whole = record.compose(Options(("c",), mask=False), started, 1.0, {}, rows, [], "c", 0)
    assert whole["cases"][0]["provider"] == provider and whole["run"]["masked"] is False
