"""The agent's own end of the wire, and what it says of the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch

from kvcheck.agent import environment, specs
from kvcheck.agent.environment import checkouts
from kvcheck.execute import zipapp


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    return zipapp.build(tmp_path_factory.mktemp("agent"))


def talk(archive, *options, requests=()):
    """Starts an agent, says something, and gives its answers by line."""
    text = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([sys.executable, str(archive), *options], input=text, capture_output=True, text=True, timeout=120, cwd="/")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_an_agent_answers_in_order_with_the_tickets_it_was_given(archive):
    params = {**{name: axis.default for name, axis in specs.axes("topk_per_row").items()}, "context_len": 40, "topk": 8}
    ask = {"type": "case", "op": "topk_per_row", "provider": "torch_eager", "params": params, "seed": 3}
    unknown = {"type": "case", "op": "no_such_op", "provider": "torch_eager", "params": {}, "seed": 3, "ticket": 2}
    said = talk(archive, "--device", "cpu", requests=[{**ask, "ticket": 1}, unknown, {"type": "lunch", "ticket": 3}, {"type": "exit"}])
    assert [message["type"] for message in said] == ["ready", *["phase"] * 5, "result", "result", "failed"]
    assert [message.get("ticket") for message in said[6:]] == [1, 2, 3]
    assert [message["phase"] for message in said[1:6]] == ["load", "inputs", "kernel", "reference", "judge"]
    assert said[6]["row"]["verdict"] == "pass"
    assert said[7]["row"]["verdict"] == "harness_error"


@pytest.mark.parametrize(("device", "reason"), [("cuda", "sees no GPU"), ("toaster", "toaster")])
def test_a_device_that_is_not_there_is_said_before_any_case(archive, device, reason):
    if device == "cuda" and torch.cuda.is_available():
        device = "cuda:99"
        reason = "is not one of them"
    [said] = talk(archive, "--device", device)
    assert said["type"] == "failed"
    assert reason in said["reason"]


def test_an_agent_ends_with_its_requests(archive):
    [ready] = talk(archive, "--device", "cpu", "--memory-limit", "2000000000", "--threads", "1")
    assert ready["environment"]["torch"] == torch.__version__
    assert ready["environment"]["device"]["arch"] == "cpu"
    assert ready["environment"]["device"]["memory_bytes"] > 0


def test_the_variables_that_steer_kernels_are_told_and_secrets_are_not():
    environ = {
        "HIP_VISIBLE_DEVICES": "0",
        "AITER_REBUILD": "1",
        "CU_NUM": "80",
        "TOPK_METHOD": "radix",
        "VLLM_API_KEY": "sk-1",
        "SGLANG_AUTH": "x",
        "VLLM_PROXY": "https://me:pw@host/x",
        "VLLM_MAX_TOKENS": "64",
        "TORCHINDUCTOR_CACHE_DIR": "/c",
        "HOME": "/root",
        "HIPPO": "1",
        "AWS_SECRET_ACCESS_KEY": "x",
    }
    assert environment.variables(environ) == {
        "AITER_REBUILD": "1",
        "CU_NUM": "80",
        "HIP_VISIBLE_DEVICES": "0",
        "SGLANG_AUTH": "***",
        "TOPK_METHOD": "radix",
        "TORCHINDUCTOR_CACHE_DIR": "/c",
        "VLLM_API_KEY": "***",
        "VLLM_MAX_TOKENS": "64",
        "VLLM_PROXY": "https://***@host/x",
    }


@pytest.mark.parametrize("packed", [False, True])
def test_a_checkouts_revision_is_read_and_an_installed_package_has_none(tmp_path, packed):
    revision = "0123456789abcdef0123456789abcdef01234567"
    git = tmp_path / "checkout" / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    if packed:
        (git / "packed-refs").write_text(f"{revision} refs/heads/main\n")
    else:
        (git / "refs/heads/main").write_text(f"{revision}\n")
    package = tmp_path / "checkout" / "aiter"
    package.mkdir()
    assert checkouts.revision(package) == revision
    assert checkouts.revision(tmp_path / "checkout/venv/site-packages/aiter") is None


def test_kernel_packages_are_looked_up_and_not_imported():
    code = (
        "import sys, torch; from kvcheck.agent import environment; found = environment.collect(torch.device('cpu'));"
        "print({'triton', 'aiter', 'vllm'} & set(sys.modules), found['triton'], found['vllm'])"
    )
    roots = os.pathsep.join(str(zipapp._folder(name).parent) for name in ("kvcheck", "kvcheck_references"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": roots})
    assert done.stdout.startswith("set() ")
