"""From the options of `kvcheck bisect git` to its target."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvcheck.cases.plan import load_all
from kvcheck.execute.containers.engine import Mount
from kvcheck.execute.containers.find import find_engine
from kvcheck.execute.containers.launcher import ContainerLauncher
from kvcheck.flow.bisect_options import BisectOptions
from kvcheck.flow.options import UsageError
from kvcheck.flow.where import HERE, Where
from kvcheck.targets.base import RangeError
from kvcheck.targets.git import Build, GitTarget


@dataclass(frozen=True)
class Request:
    """What only commits have, as typed.

    Args:
        folder: the repository.
        good: revision where the cases pass.
        bad: revision where they fail.
        paths: only commits that touch these are tried.
        build: command that builds a commit, or None.
        build_timeout: seconds.
        where: image that a commit is built and run in, if any, and its engine.
    """

    folder: Path
    good: str
    bad: str
    paths: tuple[str, ...] = ()
    build: str | None = None
    build_timeout: float = 3600.0
    where: Where = HERE


def target(request: Request, options: BisectOptions) -> GitTarget:
    """The target of a bisect of commits.

    Raises:
        UsageError: an option cannot be followed; no repository; providers that are the same at every commit.
    """
    where = request.where
    if len(where.images) > 1:
        raise UsageError(f"--image: expected one image to build and run in, got {len(where.images)}")
    where.check()
    files = load_all(options.run.cases, options.overrides(options.run.providers))
    providers = options.run.providers or tuple(dict.fromkeys(provider for file in files for provider in file.providers))
    image = (find_engine(where.engine), where.images[0], _maker(where, options)) if where.images else None
    build = Build(request.build, request.build_timeout, image)
    try:
        return GitTarget(request.folder, request.good, request.bad, providers, options.find, request.paths, build, options.run.cases)
    except RangeError as error:
        raise UsageError(str(error)) from error


def _maker(where: Where, options: BisectOptions) -> Any:
    def make(engine: Any, image: str, folder: Path, mounts: list[Mount]) -> ContainerLauncher:
        return ContainerLauncher(
            engine,
            image,
            folder,
            devices=where.engine_options or None,
            device=options.run.device,
            mounts=[*where.mounted(), *mounts],
            python=options.run.python,
        )

    return make
