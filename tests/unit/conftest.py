"""What tests of single ops share: defaults, a runner in this process, and our Triton kernels in an agent of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from kvcheck.agent import specs
from kvcheck.agent.protocol import encode


@pytest.fixture(scope="session")
def judged():
    """`judged(op, provider="torch_eager", seed=42, request={}, **params)`: the row of one case, judged in this process."""
    import torch

    from kvcheck.agent import main

    torch.set_num_threads(1)
    runner = main.Runner("cpu", {"type": "cpu", "arch": "cpu", "name": "cpu"})

    def judge(op: str, provider: str = "torch_eager", seed: int = 42, request: dict | None = None, **params):
        message = {"op": op, "provider": provider, "params": _resolved(op, params), "seed": seed, **(request or {})}
        return runner.run_case(message, lambda phase: None)

    return judge


@pytest.fixture(scope="session")
def interpreted():
    """`interpreted(op, cases, **request)`: rows of our Triton kernel; Triton decides when it is imported whether it interprets."""

    def judge(op: str, cases: list[dict], **request) -> list[dict]:
        message = {"type": "case", "op": op, "provider": "triton", "seed": 42, **request}
        sent = [{**message, "params": _resolved(op, case)} for case in cases]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "kvcheck.agent", "--device", "cpu"]
        done = subprocess.run(command, input=b"".join(map(encode, sent)), capture_output=True, env=environment, timeout=170, check=False)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        rows = [answer["row"] for answer in answers if answer["type"] == "result"]
        assert len(rows) == len(cases), done.stderr.decode()[-2000:]
        return rows

    return judge


def _resolved(op: str, params: dict) -> dict:
    """A case with the defaults of the axes that it does not name."""
    return {name: axis.default for name, axis in specs.axes(op).items()} | params
