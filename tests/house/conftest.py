"""The checkout as the house tests see it."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FRONT_PYTHONS = ("3.10", "3.11", "3.12", "3.13")


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout's folder."""
    return ROOT


@pytest.fixture(scope="session")
def committed() -> list[Path]:
    """Files that git knows or would take: what a stranger gets."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout.decode()
    return sorted({ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()})


@pytest.fixture(scope="session")
def sources(committed: list[Path]) -> list[Path]:
    """Python files of the packages: harness and references."""
    return [path for path in committed if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in ("harness", "references")]


@pytest.fixture(scope="session")
def interpreters() -> dict[str, str]:
    """Python versions found on this machine, by `3.x`: on PATH, or where pyenv keeps them."""
    found = {}
    for version in FRONT_PYTHONS:
        candidates = [shutil.which(f"python{version}"), *sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python")))]
        for candidate in filter(None, candidates):
            said = subprocess.run(
                [candidate, "-c", "import sys, ensurepip, venv; print('%d.%d' % sys.version_info[:2])"],
                capture_output=True,
                text=True,
                check=False,
            )
            if said.returncode == 0 and said.stdout.strip() == version:
                found[version] = candidate
                break
    return found


@pytest.fixture(scope="session")
def run_python(root: Path):
    """Runs a piece of Python in an interpreter of its own: `run_python(code, *options, env={...})`."""

    def run(code: str, *options: str, python: str = sys.executable, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *options, "-c", code],
            cwd=root,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **env},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run
