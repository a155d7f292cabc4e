"""What is in an environment or an image: the agent's look from inside, and the commits that its files are by content."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvcheck.execute import zipapp
from kvcheck.execute.containers.engine import Engine, Mount
from kvcheck.execute.containers.run_in import find_python, run_in
from kvcheck.execute.errors import StartError
from kvcheck.execute.launch import agent_environment
from kvcheck.targets.commits import answer, match
from kvcheck.targets.trees import Repository

MAIN = b"from kvcheck.agent.contents.look import main\n\nmain()\n"
SCHEMA = "kvcheck.contents/1"
TIMEOUT = 600.0
INSIDE = "/kvcheck/contents.zip"
PYTHONS = ("python3", "python")


def find_environment(text: str) -> str | None:
    """The interpreter of an environment.

    Args:
        text: a python, a folder of a venv or of a conda environment, or a name such as python3.11.

    Returns:
        python: None where that is no environment.
    """
    place = Path(text).expanduser()
    if place.is_dir():
        found = [place / "bin" / name for name in PYTHONS if os.access(place / "bin" / name, os.X_OK)]
        return os.path.abspath(found[0]) if found else None
    if place.is_file():
        return os.path.abspath(place) if os.access(place, os.X_OK) else None
    return shutil.which(text) if text.startswith("python") and not set(text) & set("/:@") else None


def ask_python(python: str, packages: Sequence[str] = (), variables: Mapping[str, str] = {}, only: bool = False) -> dict[str, Any]:
    """What an environment on this machine holds, as an agent that starts there would find it.

    Args:
        python: its interpreter.
        packages: import names of further packages.
        variables: over the user's own.
        only: whether nothing but these packages is looked at.

    Returns:
        contents: of schema kvcheck.contents/1, each package with its `digest`.

    Raises:
        StartError: it did not answer.
    """
    with tempfile.TemporaryDirectory(prefix="kvcheck-") as folder:
        command = [python, "-B", str(_probe(Path(folder))), *(["--only"] if only else []), *_words(packages)]
        environment = agent_environment({**os.environ, **variables}, 1)
        try:
            done = subprocess.run(
                command, cwd=os.sep, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise StartError(f"{python} could not be asked what it has: {error}", final=True) from None
    return _read(done, python)


def ask_image(engine: Engine, image: str, packages: Sequence[str] = (), mounts: Sequence[Mount] = ()) -> dict[str, Any]:
    """What an image holds, as an agent that starts in it would find it: network off, nothing written.

    Args:
        engine: that has it.
        image: reference or id of an image that is here.
        packages: import names of further packages.
        mounts: what the container sees of this machine.

    Returns:
        contents: as `ask_python`.

    Raises:
        StartError: it did not answer.
    """
    try:
        pythons = [find_python(engine, image, mounts=mounts)]
    except StartError as error:  # an image without torch has contents all the same
        pythons, why = list(PYTHONS), error
    with tempfile.TemporaryDirectory(prefix="kvcheck-") as folder:
        mounted = [Mount(_probe(Path(folder)), INSIDE), *mounts]
        for python in pythons:
            try:
                done = run_in(engine, image, [python, "-B", INSIDE, *_words(packages)], mounts=mounted, timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                raise StartError(f"{image} did not say within {TIMEOUT:g} s what it has", final=True) from None
            if done.returncode == 0 or len(pythons) == 1:
                return _read(done, image)
    raise why


def settle(contents: Mapping[str, Any], repositories: Mapping[str, Path]) -> None:
    """Puts into each package its `commit`: which one it is and how sure that is (see `commits.answer`).

    Args:
        contents: as `ask_python`.
        repositories: clone of packages, by import name.

    Raises:
        UsageError: a folder is no repository.
    """
    for name, package in contents["packages"].items():
        folder = repositories.get(name)
        found = match(Repository(folder), package) if folder and package["files"] else None
        package["commit"] = answer(package, found, asked=folder is not None)


def digest(package: Mapping[str, Any]) -> str:
    """One hash over everything of a package, compiled parts included; "" where nothing of it can be imported.

    Of torch it covers the Python files and the list of what was installed, which has the hash of every file.
    """
    if not package["files"]:
        return ""
    parts = {"files": package["files"], "binaries": package["binaries"], "beside": package["beside"]}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def brief(contents: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Package by package: version, commit (40 digits or None), sure, sentence, digest.

    Args:
        contents: settled.
    """
    return {
        name: {
            "version": package["version"],
            "commit": package["commit"]["commit"],
            "sure": package["commit"]["sure"],
            "sentence": package["commit"]["sentence"],
            "digest": package["digest"],
        }
        for name, package in contents["packages"].items()
    }


def summary(contents: Mapping[str, Any]) -> dict[str, str]:
    """What an environment holds in a few words each, for a table of differences.

    Args:
        contents: settled.
    """
    found = {"python": contents["python"]["version"]}
    for stack in ("rocm", "cuda"):
        if contents[stack]["version"]:
            found[stack] = contents[stack]["version"]
    for name, row in brief(contents).items():
        commit = f" at {row['commit'][:10]} ({row['sure']})" if row["commit"] else ""
        content = f", content {row['digest'][:12]}" if row["digest"] else ""
        found[name] = f"{row['version'] or 'of no stated version'}{commit}{content}"
    return found


def of_image(
    engine: Engine, image: str, packages: Sequence[str] = (), repositories: Mapping[str, Path] | None = None, mounts: Sequence[Mount] = ()
) -> dict[str, dict[str, Any]]:
    """`brief` of an image that is here.

    Args:
        engine: that has it.
        image: its reference or id.
        packages: import names of further packages.
        repositories: clone of packages, by import name.
        mounts: what the container sees of this machine.

    Raises:
        StartError: it did not answer.
        UsageError: a folder is no repository.
    """
    contents = ask_image(engine, image, packages, mounts)
    settle(contents, repositories or {})
    return brief(contents)


def _probe(folder: Path) -> Path:
    """The agent's look as a zip of its own: only files that older Pythons than the agent's can read."""
    spec = importlib.util.find_spec("kvcheck.agent")
    root = Path(list(spec.submodule_search_locations)[0]) / "contents"
    files = {"__main__.py": MAIN, "kvcheck/__init__.py": b"", "kvcheck/agent/__init__.py": b""}
    files |= {f"kvcheck/agent/contents/{path.name}": path.read_bytes() for path in sorted(root.glob("*.py"))}
    path = folder / "contents.zip"
    path.write_bytes(zipapp.pack(files))
    path.chmod(0o644)
    folder.chmod(0o755)
    return path


def _words(packages: Sequence[str]) -> list[str]:
    return [word for name in packages for word in ("--package", name)]


def _read(done: subprocess.CompletedProcess[bytes], who: str) -> dict[str, Any]:
    """The answer, behind whatever an interpreter's own start-up printed."""
    for line in reversed(done.stdout.decode(errors="replace").splitlines()):
        if line.startswith('{"schema": "kvcheck.contents/'):
            contents = json.loads(line)
            if contents["schema"] != SCHEMA:
                break
            for package in contents["packages"].values():
                package["digest"] = digest(package)
            return contents
    said = done.stderr.decode(errors="replace").strip().splitlines() or ["nothing"]
    raise StartError(f"{who} did not say what it has (exit status {done.returncode}); it said: {said[-1][:500]}", final=True)
