"""The front on every Python that it promises: its own tests and a whole run, in an environment of each version that has no torch.

On the oldest Python it gets the oldest versions that pyproject.toml allows, on the others the newest. Environments are kept in
.venv-front/ and made again when what they were made from changes.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tomllib

VERSIONS = ("3.10", "3.11", "3.12", "3.13")
OLDEST = VERSIONS[0]
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
FOLDERS = ("unit", "search")
TOOLS = ["pytest>=8.0", "pytest-timeout>=2.3", "hypothesis>=6.100"]
# pandas 2.0 was built before numpy 2 and does not say so; matplotlib 3.7 calls pyparsing by names that 3.3 warns of.
BESIDE_THE_OLDEST = ["numpy<2", "pyparsing<3.3"]
TORCH_SIDE = {"torch", "triton", "numpy", "aiter", "kvcheck_references"}
START_ONE_WITH_TORCH = (
    "test_kernels_",
    "test_execute_launch",
    "test_execute_zipapp",
    "test_honest",
    "test_relations",
    "test_regressions_indexer",
    "test_shrink_quality",
)
"""Beginnings of the test files that import no torch themselves, but start a process that does."""
SHARED_WITH_THE_AGENT = {"kvcheck.agent.protocol", "kvcheck.agent.specs", "kvcheck.agent.precision"}


def imported(path: Path) -> set[str]:
    """Dotted names of what a file imports; `from a import b` counts as `a.b`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def is_of_the_front(path: Path) -> bool:
    """Whether a test file needs neither torch nor the agent's own modules nor a running agent."""
    if path.name.startswith(START_ONE_WITH_TORCH):
        return False
    names = imported(path)
    own = {".".join(name.split(".")[:3]) for name in names if name.startswith("kvcheck.agent.")}
    return not {name.partition(".")[0] for name in names} & TORCH_SIDE and own <= SHARED_WITH_THE_AGENT


@pytest.fixture(scope="session")
def front_tests(root: Path) -> list[str]:
    """Test files that run where there is no torch."""
    files = [path for folder in FOLDERS for path in sorted((root / "tests" / folder).rglob("test_*.py"))]
    return [str(path.relative_to(root)) for path in files if is_of_the_front(path)]


def wanted(root: Path, version: str) -> tuple[list[str], list[str]]:
    """Requirements of the front on a version, and constraints on them."""
    dependencies = tomllib.loads((root / "pyproject.toml").read_text())["project"]["dependencies"]
    lowest = [line.replace(">=", "==") for line in dependencies] + BESIDE_THE_OLDEST
    return dependencies + TOOLS, lowest if version == OLDEST else []


def environment(root: Path, version: str, interpreter: str) -> Path:
    """An environment with the front's requirements; its interpreter."""
    requirements, constraints = wanted(root, version)
    stamp = hashlib.sha256(json.dumps([interpreter, requirements, constraints]).encode()).hexdigest()
    folder = root / ".venv-front" / version
    folder.parent.mkdir(exist_ok=True)
    with open(folder.parent / f"{version}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "made-from"
        if done.exists() and done.read_text() == stamp:
            return folder / "bin/python"
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([interpreter, "-m", "venv", "--without-pip", str(folder)], check=True)
        (folder / "constraints.txt").write_text("\n".join(constraints) + "\n")
        # --no-compile: most of what is installed is never imported here, and compiling it is three quarters of the time.
        pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "install", "-qq", "--disable-pip-version-check"]
        command = [*pip, "--no-compile", "--prefer-binary", "-c", str(folder / "constraints.txt"), *requirements]
        installed = subprocess.run(command, capture_output=True, text=True, check=False)
        assert installed.returncode == 0, installed.stdout + installed.stderr
        done.write_text(stamp)
    return folder / "bin/python"


def test_the_front_s_tests_are_found(front_tests: list[str]):
    assert {Path(name).parts[1] for name in front_tests} >= {"unit", "search"}
    assert not [name for name in front_tests if "test_bounds" in name]


@pytest.mark.timeout(560)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_front_runs_on(version: str, root: Path, tmp_path: Path, interpreters: dict[str, str], front_tests: list[str]):
    if version not in interpreters:
        pytest.skip(f"no Python {version} with venv on this machine")
    python = str(environment(root, version, interpreters[version]))
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env["PYTHONPATH"] = os.pathsep.join([str(root / "harness"), str(root / "references")])

    def run(*command: str, folder: Path = root) -> str:
        result = subprocess.run([python, *command], cwd=folder, env=env, capture_output=True, text=True, timeout=400, check=False)
        assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
        return result.stdout

    tell = "import importlib.util, sys; print('%d.%d' % sys.version_info[:2], importlib.util.find_spec('torch'))"
    assert run("-c", tell).split() == [version, "None"]
    if version != RUNNING:  # this Python runs them as it is
        said = run("-m", "pytest", "-q", "-p", "no:cacheprovider", *front_tests)
        assert int(re.search(r"(\d+) passed", said)[1]) >= len(front_tests), said[-2000:]
    # The agent is this Python, which has torch: two interpreters in one run.
    words = ["run", "smoke", "--provider", "torch_eager", "--device", "cpu", "--python", sys.executable, "--out", "out"]
    run("-m", "kvcheck.cli.main", *words, folder=tmp_path)
    assert json.loads((tmp_path / "out/run.json").read_text())["run"]["verdict_counts"] == {"pass": 10}
