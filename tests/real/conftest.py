"""Real kernels run in an agent of their own, as in a run: a wild read may end the process, and that is a result."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvcheck.agent import specs
from kvcheck.agent.protocol import encode


@pytest.fixture(scope="session")
def standin():
    """`build(root, ...)` of standin/build.py."""
    return _beside("build").build


@pytest.fixture(scope="session")
def gluon():
    """`build(root, ...)` of standin/gluon.py."""
    return _beside("gluon").build


@pytest.fixture(scope="session")
def signatures():
    """SIGNATURES of standin/signatures.py."""
    return _beside("signatures").SIGNATURES


@pytest.fixture(scope="session")
def judge():
    """`judge(provider, cases, device="cpu")`: rows of one agent, a case a dict of axes; a row whose agent died is {"verdict": "crash"}.

    A list of providers has one entry a case.
    """
    return _judge


def _beside(name: str):
    spec = importlib.util.spec_from_file_location(f"standin_{name}", Path(__file__).parent / f"standin/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _judge(
    provider: str | list[str], cases: list[dict], op: str = "paged_mqa_logits", device: str = "cpu", **request
) -> list[SimpleNamespace]:
    defaults = {name: axis.default for name, axis in specs.axes(op).items()}
    providers = [provider] * len(cases) if isinstance(provider, str) else provider
    sent = [
        {"type": "case", "op": op, "provider": name, "params": defaults | case, "seed": 42, **request}
        for name, case in zip(providers, cases, strict=True)
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "kvcheck.agent", "--device", device],
        input=b"".join(map(encode, sent)),
        capture_output=True,
        env=environment,
        cwd="/",
        timeout=170,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert answers, done.stderr.decode()
    assert answers[0]["type"] == "ready", answers[0]
    rows = [answer["row"] for answer in answers if answer["type"] == "result"]
    if done.returncode < 0:
        rows.append({"verdict": "crash", "message": f"signal {-done.returncode}"})
    return [SimpleNamespace(**row) for row in rows]
