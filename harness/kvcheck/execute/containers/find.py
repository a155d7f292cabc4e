"""Which container engine there is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from kvcheck.agent.specs import nearest
from kvcheck.execute.containers.apptainer import Apptainer, Singularity
from kvcheck.execute.containers.docker import Docker, Podman, is_podman
from kvcheck.execute.containers.engine import Engine
from kvcheck.execute.errors import StartError, UsageError

ENGINES: dict[str, type[Engine]] = {"docker": Docker, "podman": Podman, "apptainer": Apptainer, "singularity": Singularity}
"""Engines by name, in the order in which they are looked for."""


def find_engine(name: str | None = None) -> Engine:
    """A usable engine.

    Args:
        name: docker, podman, apptainer, singularity, or a path to one; None takes the first of them that works here.

    Raises:
        UsageError: no engine of that name, or it is not on PATH.
        StartError: none works here, and why each does not.
    """
    if name is not None:
        kind = Path(name).name
        if kind not in ENGINES:
            raise UsageError(f"--engine: expected {', '.join(ENGINES)} or a path to one, got {name!r}; nearest: {nearest(kind, ENGINES)}")
        path = shutil.which(os.path.expanduser(name))
        if path is None:
            raise UsageError(f"--engine: {name} is not there or not executable")
        engine = _engine(kind, os.path.abspath(path))
        problem = engine.problem()
        if problem:
            raise StartError(f"{name} cannot be used here: {problem}", final=True)
        return engine
    tried = []
    for kind in ENGINES:
        path = shutil.which(kind)
        if path is None:
            tried.append(f"{kind}: not on PATH")
            continue
        engine = _engine(kind, path)
        problem = engine.problem()
        if problem is None:
            return engine
        tried.append(f"{kind}: {problem}")
    raise StartError("no container engine works here. Tried:\n  " + "\n  ".join(tried), final=True)


def _engine(kind: str, path: str) -> Engine:
    return Podman(path) if kind == "docker" and is_podman(path) else ENGINES[kind](path)
