"""Environments and repositories made on the spot: a Python without anything installed, packages written file by file."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .aiter_like import INIT

NOBODY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b.c", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b.c"}
ALONE = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def write(root: Path, files: dict[str, str]) -> None:
    """Writes files under a folder."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


class Environment:
    """A venv with nothing in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        self.python = str(folder / "bin/python")
        self.site = next(folder.glob("lib/python3*/site-packages"))

    def write(self, files: dict[str, str]) -> None:
        """Writes files into site-packages."""
        write(self.site, files)

    def metadata(self, name: str, version: str, files: dict[str, str] | None = None, record: str = "") -> None:
        """Writes a distribution's metadata."""
        folder = f"{name.replace('-', '_')}-{version}.dist-info"
        self.write({f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", f"{folder}/RECORD": record})
        self.write({f"{folder}/{path}": text for path, text in (files or {}).items()})


class Clone:
    """A git repository; times go up by a minute a commit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._minute = 0
        folder.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        """Runs git there; what it says."""
        when = f"2026-01-01T00:{self._minute:02d}:00Z"
        environment = {**os.environ, **NOBODY, **ALONE, "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        done = subprocess.run(["git", "-C", str(self.folder), *words], check=True, capture_output=True, text=True, env=environment)
        return done.stdout.strip()

    def commit(self, files: dict[str, str | None]) -> str:
        """Writes (or removes) files, commits, and gives the commit's id."""
        self._minute += 1
        for name, text in files.items():
            if text is None:
                (self.folder / name).unlink()
            else:
                write(self.folder, {name: text})
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", f"commit {self._minute}")
        return self.git("rev-parse", "HEAD")

    def install(self, folder: str, site: Path, name: str) -> None:
        """Copies a package as a wheel would."""
        shutil.copytree(self.folder / folder, site / name, dirs_exist_ok=True)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    """A Python with nothing installed."""
    return Environment(tmp_path / "env")


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    """An empty repository."""
    return Clone(tmp_path / "clone")


@pytest.fixture
def written():
    """`write(root, files)`."""
    return write


@pytest.fixture(scope="session")
def local():
    """local_wheels.py: `wheel(...)` and `index(...)`."""
    spec = importlib.util.spec_from_file_location("kvcheck_local_wheels", Path(__file__).parent / "local_wheels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def history(clone):
    """Four commits: two of them differ outside the package only."""
    first = clone.commit(INIT)
    second = clone.commit({"aiter/ops/mha.py": "a = 2\n"})
    third = clone.commit({"README": "unrelated\n"})
    fourth = clone.commit({"aiter/ops/mha.py": "a = 3\n", "aiter/ops/new.py": ""})
    return [first, second, third, fourth]
