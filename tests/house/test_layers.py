"""Who may import whom: the contracts of pyproject.toml, and what a contract on modules cannot say."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

KERNEL_PACKAGES = {"triton", "aiter", "vllm", "deep_gemm", "flash_mla", "flashinfer"}
AGENT_MAY_IMPORT = {
    "": {"torch"},
    "kernels": {"torch"} | KERNEL_PACKAGES,
    "providers": {"torch"} | KERNEL_PACKAGES,
    "emulator": {"torch", "numpy", "triton"},
}


def imports(path: Path) -> set[str]:
    """Top-level names of everything a file imports, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found


def outside(path: Path, own: str) -> set[str]:
    """What a file imports beyond the standard library and its own package."""
    return imports(path) - set(sys.stdlib_module_names) - {own, "__future__"}


def lint(root: Path, *extra: str) -> subprocess.CompletedProcess[str]:
    """Runs import-linter in a folder."""
    # sys.executable's own folder: the tool of this environment, whatever PATH says.
    tool = Path(sys.executable).parent / "lint-imports"
    paths = os.pathsep.join([str(root / "harness"), str(root / "references")])
    env = {**os.environ, "PYTHONPATH": paths, "NO_COLOR": "1", "COLUMNS": "200"}
    return subprocess.run([str(tool), "--no-cache", *extra], cwd=root, env=env, capture_output=True, text=True, check=False)


def test_every_contract_is_kept(root: Path):
    result = lint(root)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("harness/kvcheck/cases/__init__.py", "import kvcheck.report"),
        ("harness/kvcheck/search/__init__.py", "import torch"),
        ("harness/kvcheck/flow/__init__.py", "import kvcheck.agent.judge"),
        ("harness/kvcheck/agent/judge/__init__.py", "import triton"),
        ("harness/kvcheck/agent/main.py", "import kvcheck_references"),
        ("harness/kvcheck/unheard_of.py", ""),
        ("harness/kvcheck/agent/unheard_of.py", ""),
    ],
)
def test_a_broken_layer_is_noticed(root: Path, tmp_path: Path, file: str, line: str):
    for name in ("harness", "references"):
        for source in (root / name).rglob("*.py"):
            copy = tmp_path / source.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(source.read_text())
    (tmp_path / "pyproject.toml").write_text((root / "pyproject.toml").read_text())
    target = tmp_path / file
    target.write_text((target.read_text() if target.exists() else "") + f"\n{line}\n")
    result = lint(tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "BROKEN" in result.stdout or "unheard_of" in result.stdout


def test_the_agent_imports_the_standard_library_and_torch(sources: list[Path], root: Path):
    agent = root / "harness/kvcheck/agent"
    seen = 0
    for path in sources:
        if agent in path.parents:
            folder = path.relative_to(agent).parts[0]
            allowed = AGENT_MAY_IMPORT.get(folder, AGENT_MAY_IMPORT[""])
            assert outside(path, "kvcheck") <= allowed, path
            seen += 1
    assert seen > 20


def test_references_import_torch_and_nothing_else(sources: list[Path], root: Path):
    references = [path for path in sources if root / "references" in path.parents and path.name != "__init__.py"]
    assert len(references) >= 4
    for path in references:
        assert outside(path, "kvcheck_references") <= {"torch"}, path
        assert "kvcheck" not in imports(path), path


def test_references_are_found_by_name_only(sources: list[Path], root: Path):
    for path in sources:
        if root / "harness" in path.parents:
            assert "kvcheck_references" not in imports(path), path
