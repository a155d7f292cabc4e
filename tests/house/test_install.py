"""What a stranger gets: the built wheel from any folder, and an environment that is left as it was."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("install")

NEVER_REQUIRED = {"torch", "triton", "amd-aiter", "aiter", "vllm", "numpy"}
KERNELS = ("torch", "triton", "amd-aiter", "vllm")
NEWER = dict.fromkeys([*KERNELS, "pydantic", "pandas", "pyyaml", "matplotlib"], "99.0")
# The least that pyproject.toml asks for, as an image of some age has it.
LOWEST = {
    **dict.fromkeys(KERNELS, "0.1"),
    "pydantic": "2.6.0",
    "pandas": "2.0.0",
    "pyyaml": "6.0.1",
    "rich": "13.8.0",
    "matplotlib": "3.7.0",
}


def normal(name: str) -> str:
    """A distribution's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement_names(distribution: importlib.metadata.Distribution) -> set[str]:
    """Names of what a distribution asks for when no extra is asked for."""
    lines = [line for line in distribution.requires or [] if "extra ==" not in line]
    return {normal(re.match(r"[A-Za-z0-9._-]+", line)[0]) for line in lines}


def environment(folder: Path) -> Path:
    """An empty environment of this Python; its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin/python"


def site_packages(python: Path) -> Path:
    """Where an environment keeps its packages."""
    return next((python.parent.parent / "lib").glob("python3.*/site-packages"))


def lend(python: Path, names: set[str]) -> set[str]:
    """Puts distributions of the tests' own environment into another one by links, with what they ask for; what was lent."""
    wanted, done, target = {normal(name) for name in names}, set(), site_packages(python)
    while wanted:
        name = wanted.pop()
        done.add(name)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:  # asked for on another platform or Python only
            continue
        for top in {file.parts[0] for file in distribution.files if file.parts[0] != ".." and file.parts[0] != "__pycache__"}:
            if not (target / top).exists():
                (target / top).symlink_to(Path(distribution.locate_file(top)))
        wanted |= requirement_names(distribution) - done
    return done


def pip(python: Path, *arguments: str) -> None:
    """Runs pip on another environment."""
    command = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def installed(python: Path) -> dict[str, str]:
    """Every distribution of an environment, with its version and the digest of its record, which changes with any file."""
    found = {}
    for distribution in importlib.metadata.distributions(path=[str(site_packages(python))]):
        record = hashlib.sha256((distribution.read_text("RECORD") or "").encode()).hexdigest()
        found[normal(distribution.metadata["Name"])] = f"{distribution.version} {record}"
    return found


def put(python: Path, name: str, version: str) -> None:
    """A distribution of that name and version, as an image's builder may have left it: one module, no requirements."""
    stem = name.replace("-", "_")
    info = f"{stem}-{version}.dist-info"
    contents = {
        f"{stem}.py": f"__version__ = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/INSTALLER": "pip\n",
    }
    contents[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*contents, f"{info}/RECORD"])
    for path, text in contents.items():
        file = site_packages(python) / path
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel built from this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(root)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return next(folder.glob("kvcheck-*.whl"))


@pytest.fixture(scope="module")
def front(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that holds the wheel, what the wheel asks for, and nothing else: its interpreter."""
    python = environment(tmp_path_factory.mktemp("front") / "env")
    pip(python, "install", "--no-deps", "--no-index", str(wheel))
    kvcheck = next(d for d in importlib.metadata.distributions(path=[str(site_packages(python))]) if d.metadata["Name"] == "kvcheck")
    lent = lend(python, requirement_names(kvcheck))
    # numpy comes with pandas and matplotlib; torch and kernels come with nothing.
    assert not lent & (NEVER_REQUIRED - {"numpy"})
    return python


def command(python: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the installed `kvcheck` in a folder that has nothing to do with the checkout."""
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    env["COLUMNS"] = "200"
    return subprocess.run(
        [str(python.parent / "kvcheck"), *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=170, check=False
    )


def test_the_wheel_holds_the_packages_the_references_and_the_cases(wheel: Path, root: Path):
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {f"kvcheck/builtin/{path.relative_to(root / 'cases').as_posix()}" for path in (root / "cases").rglob("*.yaml")}
    assert len(expected) >= 4
    for source in ("harness/kvcheck", "references/kvcheck_references"):
        files = [path for path in (root / source).rglob("*.*") if path.suffix in (".py", ".css", ".js")]
        expected |= {path.relative_to((root / source).parent).as_posix() for path in files}
    assert "kvcheck/report/_html/style.css" in expected
    assert expected <= names
    assert {name.partition("/")[0] for name in names} == {"kvcheck", "kvcheck_references", f"kvcheck-{wheel.name.split('-')[1]}.dist-info"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_torch_and_kernels_are_no_requirements(front: Path):
    kvcheck = next(d for d in importlib.metadata.distributions(path=[str(site_packages(front))]) if d.metadata["Name"] == "kvcheck")
    assert not requirement_names(kvcheck) & NEVER_REQUIRED
    # Lower bounds only: an upper bound would take a newer version away from somebody.
    assert not [line for line in kvcheck.requires if "extra ==" not in line and re.search(r"<|==|~=", line.partition(";")[0])]


def test_the_installed_command_answers_from_any_folder(front: Path, tmp_path: Path):
    result = command(front, tmp_path, "--help")
    assert result.returncode == 0, result.stdout + result.stderr
    result = command(front, tmp_path, "list", "cases")
    assert result.returncode == 0, result.stdout + result.stderr
    assert {"smoke", "paged_mqa", "seeds/vllm_39303"} <= set(re.findall(r"[\w/]+", result.stdout))


def test_the_installed_wheel_judges_with_another_interpreter(front: Path, tmp_path: Path):
    # The front's environment has no torch: the agent is the tests' own interpreter.
    result = command(
        front, tmp_path, "run", "smoke", "--provider", "torch_eager", "--device", "cpu", "--python", sys.executable, "--out", "out"
    )
    assert result.returncode == 0, result.stdout + result.stderr
    run = json.loads((tmp_path / "out/run.json").read_text())
    assert [row["verdict"] for row in run["cases"]] == ["pass"] * 10
    assert run["environment"]["torch"] == importlib.metadata.version("torch")


def test_without_torch_nothing_is_judged_and_it_says_so(front: Path, tmp_path: Path):
    result = command(
        front, tmp_path, "run", "smoke", "--provider", "torch_eager", "--device", "cpu", "--python", str(front), "--out", "out"
    )
    assert result.returncode == 3, result.stdout + result.stderr
    assert "torch" in result.stdout + result.stderr


@pytest.mark.parametrize("versions", [NEWER, LOWEST], ids=["newer", "lowest"])
def test_nothing_that_is_there_is_replaced(wheel: Path, tmp_path: Path, versions: dict[str, str]):
    python = environment(tmp_path / "env")
    for name, version in versions.items():
        put(python, name, version)
    before = installed(python)
    assert before.keys() == versions.keys()
    pip(python, "install", "--quiet", str(wheel))
    after = installed(python)
    assert {name: after.get(name) for name in before} == before
    assert not after.keys() & (NEVER_REQUIRED - before.keys())
    assert {"kvcheck", "typer", "covertable"} <= after.keys()


def test_what_is_too_old_is_replaced(wheel: Path, tmp_path: Path):
    # The test above would also pass if pip did nothing at all, or if `installed` saw no change.
    python = environment(tmp_path / "env")
    for name, version in {**LOWEST, "rich": "1.0"}.items():
        put(python, name, version)
    before = installed(python)
    pip(python, "install", "--quiet", str(wheel))
    after = installed(python)
    assert {name for name in before if after.get(name) != before[name]} == {"rich"}
