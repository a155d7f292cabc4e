"""Our Triton kernels under Triton's interpreter, imported from the agent's zip, against the references."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvcheck.execute import zipapp

PROGRAM = Path(__file__).with_name("kernels_on_cpu.py")
CHECKS = [node.name for node in ast.parse(PROGRAM.read_text()).body if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")]

pytestmark = pytest.mark.xdist_group("kernels_on_cpu")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Triton decides when it is imported whether it interprets, hence one process for all checks."""
    agent = zipapp.build(tmp_path_factory.mktemp("zip"))
    code = f"import runpy, sys; sys.path.insert(0, {str(agent)!r}); runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    process = subprocess.run([sys.executable, "-W", "error", "-c", code], env=environ, capture_output=True, text=True, timeout=170)
    assert process.returncode == 0, process.stderr[-3000:]
    return {**json.loads(process.stdout), "agent": agent}


def test_kernels_come_from_the_zip(done):
    assert done["kernels"] == f"{done['agent']}/kvcheck/agent/kernels/paged_mqa_logits.py"


@pytest.mark.parametrize("check", CHECKS)
def test_kernels(done, check):
    assert check not in done["failed"], done["failed"][check]
