"""The front has no torch, and files that open with a SPEC can be read where there is none."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

BLOCK = """
import importlib, pkgutil, sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "triton", "aiter", "vllm"}:
            raise ImportError(f"{name} was imported")
sys.meta_path.insert(0, Block())
"""

FRONT = """
import kvcheck, kvcheck.agent.protocol, kvcheck.agent.specs
names = ["kvcheck"]
for module in pkgutil.walk_packages(kvcheck.__path__, "kvcheck."):
    if not module.name.startswith("kvcheck.agent") and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
        names.append(module.name)
print(len(names))
"""

SPECS = """
import kvcheck.agent
count = 0
for kind in ("ops", "inputs", "faults", "providers", "relations"):
    package = importlib.import_module(f"kvcheck.agent.{kind}")
    for module in pkgutil.iter_modules(package.__path__):
        loaded = importlib.import_module(f"kvcheck.agent.{kind}.{module.name}")
        if hasattr(loaded, "SPEC"):
            from kvcheck.agent import specs
            assert specs.load(kind, module.name).data == loaded.SPEC, module.name
            count += 1
print(count)
"""


def test_the_front_never_imports_torch(run_python):
    result = run_python(BLOCK + FRONT)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 20


def test_the_block_blocks(run_python):
    result = run_python(BLOCK + "import torch")
    assert result.returncode == 1
    assert "torch was imported" in result.stderr


@pytest.mark.parametrize("command", ["--help", "run --help", "list --help", "list cases", "list ops", "list providers"])
def test_commands_that_only_tell_answer_without_torch(run_python, command: str):
    result = run_python(BLOCK + f"sys.argv = ['kvcheck', *{command.split()!r}]\nfrom kvcheck.cli.main import app\napp()")
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip()


def test_files_with_a_spec_are_read_with_the_standard_library_alone(run_python, root: Path):
    # -S: no site-packages at all, so a module-level import of anything third-party fails.
    result = run_python(BLOCK + SPECS, "-S", PYTHONPATH=str(root / "harness"))
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) >= 10


def test_every_file_of_a_kind_opens_with_its_spec(root: Path):
    for kind in ("ops", "faults", "providers", "relations"):
        for path in sorted((root / "harness/kvcheck/agent" / kind).glob("[!_]*.py")):
            body = [node for node in ast.parse(path.read_text()).body if not isinstance(node, (ast.Import, ast.ImportFrom, ast.Expr))]
            first = body[0]
            assert isinstance(first, ast.Assign), path
            assert [target.id for target in first.targets if isinstance(target, ast.Name)] == ["SPEC"], path
            assert isinstance(ast.literal_eval(first.value), dict), path
