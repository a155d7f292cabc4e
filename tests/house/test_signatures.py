"""One contract an op: what its inputs are called is what providers and references take, and what its docstring says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from kvcheck.agent import specs

OPS = [name for name in specs.names("ops") if "stages" not in specs.load("ops", name).data]
"""A pipeline has no function of its own: its stages do."""
DERIVED = {"width", "tokens", "entries", "row_bytes", "num_pages"}
"""Sizes in a shape that follow from the axes of a case."""


def docstring(root: Path, op: str) -> str:
    """The docstring of an op's `make_inputs`, which documents the op's function."""
    tree = ast.parse((root / f"harness/kvcheck/agent/ops/{op}.py").read_text())
    return next(ast.get_docstring(node) for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "make_inputs")


def tensor_lines(text: str) -> dict[str, str]:
    """Shapes by tensor name: the regular lines `name: [axes] dtype. meaning`."""
    return dict(re.findall(r"^\s+(\w+): (\[.*?\](?: or \[.*?\])*) \w", text, re.MULTILINE))


def smallest(op: str):
    """The inputs of an op's smallest case."""
    from importlib import import_module

    from kvcheck.agent.inputs.random import Generator

    params = {name: axis.default for name, axis in specs.axes(op).items()}
    small = {"context_len": 8, "max_model_len": 8, "topk": 2, "poison": "zero", "kv_dtype": "e4m3fn"}
    params |= {name: value for name, value in small.items() if name in params}
    return import_module(f"kvcheck.agent.ops.{op}").make_inputs(params, Generator(0))


def arguments(op: str) -> set[str]:
    """Keywords that an op's function is called with beside its outputs and `alloc`."""
    inputs = smallest(op)
    return {*inputs.tensors, *inputs.scalars}


def outputs(op: str) -> set[str]:
    """Names under which the outputs are passed: `out` where there is one."""
    names = set(smallest(op).outputs)
    return names if len(names) > 1 else {"out"}


def functions(path: Path, op: str) -> list[tuple[int, set[str], bool]]:
    """Every function of that name in a file, methods too: line, argument names, whether it takes any keyword."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name == op:
            names = {argument.arg for argument in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]}
            found.append((node.lineno, names - {"self"}, node.args.kwarg is not None))
    return found


@pytest.mark.parametrize("op", OPS)
def test_the_docstring_s_axes_are_those_of_the_spec(root: Path, op: str):
    text = docstring(root, op)
    shapes = tensor_lines(text)
    sizes = {name for name, axis in specs.axes(op).items() if axis.type == "int"}
    named = set(re.findall(r"[a-z_]+", " ".join(shapes.values()).replace(" or ", " "))) - (DERIVED - sizes)
    called = re.search(rf"{op}\((.*?)\)", text)[1]
    assert named - DERIVED <= sizes, named - sizes
    # An axis sizes a tensor or is an argument; but the k that is judged on logits, or that fills the lists of a sparse call, is neither.
    assert sizes - named - set(re.findall(r"\w+", called)) <= {"topk"}, sizes - named


@pytest.mark.parametrize("op", OPS)
def test_the_docstring_names_every_tensor(root: Path, op: str):
    shapes = tensor_lines(docstring(root, op))
    assert shapes.keys() - outputs(op) <= arguments(op)
    called = re.search(rf"{op}\((.*?)\)", docstring(root, op))[1].partition("*")[0]
    assert set(re.findall(r"\w+", called)) == shapes.keys() - outputs(op)


@pytest.mark.parametrize("op", OPS)
def test_every_provider_takes_the_op_s_arguments(root: Path, op: str):
    expected, seen = arguments(op) | outputs(op) | {"alloc"}, 0
    agent = root / "harness/kvcheck/agent"
    paths = sorted((agent / "providers").rglob("*.py"))
    if not functions(agent / "providers/triton.py", op):  # found by name, and called as it is
        paths.append(agent / f"kernels/{op}.py")
    for path in paths:
        for line, names, anything in functions(path, op):
            seen += 1
            assert names <= expected, f"{path.name}:{line}"
            assert anything or names == expected, f"{path.name}:{line} lacks {expected - names}"
    assert seen >= 2


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("suffix", ["", "_naive"])
def test_every_op_has_two_references_that_take_its_arguments(root: Path, op: str, suffix: str):
    path = root / f"references/kvcheck_references/{op}{suffix}.py"
    found = functions(path, op)
    assert len(found) == 1
    line, names, _ = found[0]
    assert arguments(op) <= names, f"{path.name}:{line} lacks {arguments(op) - names}"
    assert "Source:" in path.read_text()


def test_every_provider_implements_what_its_spec_promises(root: Path):
    for name in specs.names("providers"):
        spec = specs.load("providers", name)
        assert spec.data["name"] == name
        assert set(spec.data["ops"]) <= set(OPS)
        assert spec.data["process"] in ("own", "shared")
        for field in ("summary", "origin", "hardware", "remedy"):
            assert spec.data[field], f"{name}: {field}"
        assert re.search(r"^Origin: ", Path(spec.file).read_text(), re.MULTILINE), f"{name}: the docstring says no origin"
        assert re.search(r"^Hardware: ", Path(spec.file).read_text(), re.MULTILINE), f"{name}: the docstring says no hardware"
