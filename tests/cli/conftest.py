"""Whole commands in processes of their own, as a user types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from .bisect_range import Range


@pytest.fixture
def kvcheck(tmp_path):
    """Runs a command in an empty folder; `run` is run.json where --out was given."""

    def call(*words, env=None, cwd=tmp_path, timeout=170):
        command = [sys.executable, "-m", "kvcheck.cli.main", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=timeout, env={**os.environ, **(env or {})})
        out = Path(cwd, words[words.index("--out") + 1]) / "run.json" if "--out" in words else None
        run = json.loads(out.read_text()) if out and out.is_file() else None
        return SimpleNamespace(code=done.returncode, out=done.stdout, err=done.stderr, run=run, folder=out.parent if out else None)

    return call


@pytest.fixture
def case_file(tmp_path):
    """Writes a case file."""

    def write(text, name="case.yaml"):
        file = tmp_path / name
        file.write_text(text)
        return str(file)

    return write


@pytest.fixture
def double(tmp_path, monkeypatch, capsys):
    """A range that is written down, to bisect with agents that a double plays."""
    return Range(tmp_path, monkeypatch, capsys)
