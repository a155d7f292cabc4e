"""About 200 small Triton kernels a target: compiled, executed as machine code, compared with torch; and no finding in any of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="compiling kernels needs triton")

HERE = Path(__file__).parent
TARGETS = ("gfx942", "gfx950")
AT_LEAST = 60
_started: dict[str, subprocess.Popen] = {}


def start(arch: str) -> subprocess.Popen:
    """The suite's process for a target; both run at once, on two cores."""
    if arch not in _started:
        roots = [str(HERE), str(HERE.parents[1] / "harness"), os.environ.get("PYTHONPATH", "")]
        environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {
            "PYTHONPATH": os.pathsep.join(roots),
            "OMP_NUM_THREADS": "1",
        }
        _started[arch] = subprocess.Popen(
            [sys.executable, "-m", "suite.runner", arch],
            cwd=HERE,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    return _started[arch]


@pytest.mark.timeout(400)
@pytest.mark.xdist_group("emulator_suite")
@pytest.mark.parametrize("arch", TARGETS)
def test_every_kernel_agrees_with_torch(arch):
    for other in TARGETS:
        start(other)
    out, err = start(arch).communicate()
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    bad = {row["name"]: row["problems"] for row in rows if row["problems"]}
    assert start(arch).returncode == 0, err[-2000:]
    assert not bad, json.dumps(bad, indent=1)[:4000]
    assert len(rows) >= AT_LEAST
    assert len({row["name"] for row in rows}) == len(rows)
    assert sum(row["wave_instructions"] > 0 for row in rows) >= AT_LEAST
