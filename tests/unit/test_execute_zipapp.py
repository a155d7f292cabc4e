"""The agent's zip: the same bytes from the same sources, everything in it, and Triton kernels that load from inside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from kvcheck.execute import zipapp

KERNEL = """
import triton
import triton.language as tl


@triton.jit
def twice(values, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(values + at, tl.load(values + at, mask=at < size, other=0.0) * 2, mask=at < size)
"""
CALL = """
import torch
from package.kernel import twice

values = torch.ones(100)
twice[(4,)](values, 100, BLOCK=32)
print(float(values.sum()))
"""


def isolated(*command: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs a command that sees no kvcheck but the zip's."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(command, env={**env, **environ}, cwd="/", input='{"type":"exit"}\n', capture_output=True, text=True, timeout=120)


def test_the_same_sources_give_the_same_bytes(tmp_path):
    first, second = (zipapp.build(tmp_path / name) for name in ("a", "b") if not (tmp_path / name).mkdir())
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()
    files = zipapp.sources()
    assert zipapp.pack({**files, "kvcheck/__init__.py": b"pass"}) != zipapp.pack(files)


def test_it_holds_the_agent_and_the_references_and_nothing_of_the_front(tmp_path):
    names = set(zipfile.ZipFile(zipapp.build(tmp_path)).namelist())
    roots = Path(zipapp.__file__).parents[2], Path(zipapp.__file__).parents[3] / "references"
    wanted = {str(path.relative_to(roots[0])) for path in (roots[0] / "kvcheck/agent").rglob("*.py")}
    wanted |= {name for name in names if name.startswith("kvcheck_references/")}
    assert names == wanted | {"__main__.py", "kvcheck/__init__.py"}
    assert "kvcheck_references/paged_mqa_logits.py" in names
    assert zipfile.ZipFile(zipapp.build(tmp_path)).read("kvcheck/__init__.py") == b""


def test_the_front_builds_it_without_torch():
    code = "import sys; sys.modules['torch'] = None; from kvcheck.execute import zipapp; print(len(zipapp.pack(zipapp.sources())))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": _roots()}
    )
    assert int(done.stdout) > 10_000


def test_it_runs_from_anywhere_with_nothing_of_kvcheck_installed(tmp_path):
    path = zipapp.build(tmp_path)
    done = isolated(sys.executable, "-I", "-c", f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    ready = json.loads(done.stdout.splitlines()[0])
    assert ready["type"] == "ready"
    assert ready["environment"]["device"]["interpreted"] is True


def test_a_triton_kernel_is_found_inside_a_zip(tmp_path):
    files = {"__main__.py": CALL.encode(), "package/__init__.py": b"", "package/kernel.py": KERNEL.encode()}
    (tmp_path / "kernel.zip").write_bytes(zipapp.pack(files))
    done = isolated(sys.executable, str(tmp_path / "kernel.zip"), TRITON_INTERPRET="1")
    assert done.stdout.strip() == "200.0", done.stderr


def _roots() -> str:
    return os.pathsep.join(str(Path(folder).parent) for folder in (zipapp._folder("kvcheck"), zipapp._folder("kvcheck_references")))
