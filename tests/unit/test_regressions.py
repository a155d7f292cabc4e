"""Every regression fails with the planted fault that carries its bug, and passes with the honest kernel under it."""

from __future__ import annotations

import re

import pytest
import torch

from kvcheck.agent import main, specs
from kvcheck.agent.protocol import failed
from kvcheck.cases import builtin
from kvcheck.cases.overrides import Overrides
from kvcheck.cases.plan import plan

REFS = [ref for ref in builtin.names() if ref.startswith("regressions/")]


@pytest.fixture(scope="module")
def runner():
    torch.set_num_threads(1)
    return main.Runner("cpu", {"type": "cpu", "arch": "cpu", "name": "cpu"})


def needs_a_gpu(ref):
    """Whether a regression says that it takes more memory than a test may."""
    return "so a GPU" in (builtin.root() / f"{ref}.yaml").read_text().split("schema:")[0]


def planted(ref):
    """The faults that a regression's header names."""
    header = (builtin.root() / f"{ref}.yaml").read_text().split("schema:")[0]
    return sorted(set(re.findall(r"`(fault:[a-z0-9_=-]+)`", header)))


def rows(runner, ref, provider, ops):
    cases = [case for case in plan([ref], Overrides(providers=(provider,))).cases if case.op in ops]
    return [runner.run_case(case.request(), lambda phase: None) for case in cases]


@pytest.mark.parametrize(("ref", "fault"), [(ref, fault) for ref in REFS if not needs_a_gpu(ref) for fault in planted(ref)])
def test_the_fault_that_carries_the_bug_fails_and_the_kernel_under_it_passes(runner, ref, fault):
    data = specs.load("faults", fault.removeprefix("fault:").partition("=")[0]).data
    bad = rows(runner, ref, fault, data["ops"])
    assert any(failed(row["verdict"]) for row in bad), [row["verdict"] for row in bad]
    assert [row["message"] for row in rows(runner, ref, data["base"], data["ops"]) if row["verdict"] != "pass"] == []


def test_a_regression_without_a_fault_is_the_exception():
    assert [ref for ref in REFS if not planted(ref)] == [
        "regressions/aiter_2563_heads_below_chunk",
        "regressions/vllm_39303_random_bytes",
    ]
    assert [ref for ref in REFS if needs_a_gpu(ref)] == ["regressions/aiter_4244_row_offset"]


def test_random_bytes_are_an_invalid_case_and_keys_are_not(runner):
    found = rows(runner, "regressions/vllm_39303_random_bytes", "torch_eager", ["paged_mqa_logits"])
    verdicts = {(row["params"]["context_len"], row["params"]["values"]): row["verdict"] for row in found}
    assert verdicts == {
        (length, values): verdict
        for length in (1024, 2048, 3072)
        for values, verdict in (("random_bytes", "invalid_case"), ("gaussian", "pass"))
    }
