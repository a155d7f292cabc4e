"""What a linter does not look at: length and names of files, docstrings, and that the oldest Python reads every file."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

LONGEST = 300
SPELT = re.compile(r"(__)?[a-z][a-z0-9_]*(__)?|_[a-z][a-z0-9_]*")


def public(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Public functions and classes of a file, and public methods of public classes."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    found = [node for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]
    for node in list(found):
        if isinstance(node, ast.ClassDef):
            found += [inner for inner in node.body if isinstance(inner, kinds) and not inner.name.startswith("_")]
    return found


def test_no_file_is_longer_than_a_reader_holds(committed: list[Path], root: Path):
    long = {str(path.relative_to(root)): n for path in committed if path.suffix == ".py" and (n := len(path.read_text().splitlines())) > LONGEST}
    assert not long


def test_file_names_are_lower_case_words(committed: list[Path]):
    strange = [path.name for path in committed if path.suffix == ".py" and not SPELT.fullmatch(path.stem)]
    assert not strange


def test_everything_public_has_a_docstring(sources: list[Path], root: Path):
    missing = []
    for path in sources:
        tree = ast.parse(path.read_text())
        where = path.relative_to(root)
        if tree.body and not ast.get_docstring(tree):
            missing.append(f"{where}: the module")
        missing += [f"{where}:{node.lineno} {node.name}" for node in public(tree) if not ast.get_docstring(node)]
    assert not missing


@pytest.mark.parametrize("version", ["3.10", "3.13"])
def test_every_file_compiles(sources: list[Path], interpreters: dict[str, str], run_python, version: str):
    if version not in interpreters:
        pytest.skip(f"no Python {version} on this machine")
    code = "import pathlib, sys\nfor name in sys.stdin.read().split('\\0'):\n    compile(pathlib.Path(name).read_bytes(), name, 'exec')\n"
    listed = "\0".join(map(str, sources))
    result = run_python(f"import io, sys\nsys.stdin = io.StringIO({listed!r})\n" + code, "-I", "-W", "error", python=interpreters[version])
    assert result.returncode == 0, result.stderr


def test_the_newest_syntax_would_be_refused(interpreters: dict[str, str], run_python):
    if "3.10" not in interpreters:
        pytest.skip("no Python 3.10 on this machine")
    result = run_python("compile('try:\\n    pass\\nexcept* ValueError:\\n    pass', 'x', 'exec')", "-I", python=interpreters["3.10"])
    assert "SyntaxError" in result.stderr
