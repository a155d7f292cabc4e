"""The vllm provider without vLLM: every reason why it cannot run is an Unsupported that says so."""

from __future__ import annotations

import importlib.machinery
import importlib.util

import pytest
import torch

from kvcheck.agent import assemble
from kvcheck.agent.protocol import Unsupported
from kvcheck.agent.providers import vllm
from kvcheck.agent.providers._vllm import calls, indexer, load, metadata, tables

CPU = torch.device("cpu")


@pytest.mark.parametrize("origin", [None, "folder"])
def test_without_the_package(monkeypatch, origin):
    """A folder called vllm on the path is no package either."""
    real = importlib.util.find_spec
    spec = importlib.machinery.ModuleSpec("vllm", None) if origin else None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: spec if name == "vllm" else real(name, *rest))
    with pytest.raises(Unsupported, match="not installed"):
        vllm.bind(None, None, "cpu")


def test_variants_and_directories(monkeypatch):
    with pytest.raises(Unsupported, match="no variant 'gpu'; there are cpu, decode_kernel"):
        vllm.bind("gpu", None, "cpu")
    with pytest.raises(Unsupported, match="--python"):
        vllm.bind(None, "/somewhere", "cpu")


def test_a_module_that_does_not_import_is_named():
    package = load.Package("1", {"sparse": ImportError("no aiter")}, True, False, None)
    with pytest.raises(Unsupported, match="sparse_utils of vllm 1 does not import here: ImportError: no aiter"):
        package.module("sparse")


def package(**modules):
    def choose(size, backends):
        (wanted,) = backends[0].get_supported_kernel_block_sizes()
        if size % wanted:
            raise ValueError("No common block size")
        return wanted

    utils = type("utils", (), {"select_common_block_size": staticmethod(choose)})
    platform = type("platform", (), {"fp8_dtype": staticmethod(lambda: torch.float8_e4m3fn)})
    return load.Package("1", {"worker_utils": utils, **modules}, True, False, platform)


def slots(sizes, requests, **changes):
    made = package()
    for name, value in changes.items():
        setattr(made, name, value)
    requests = torch.tensor(requests, dtype=torch.int32)
    out = torch.zeros(len(requests), dtype=torch.int64)
    return tables.slots(made, torch.ones(2, 2, dtype=torch.int32), requests, torch.zeros_like(requests), sizes, "read", out)


def test_conversions_that_vllm_has_not():
    with pytest.raises(Unsupported, match="its kernel block is the page"):
        slots(tables.Sizes(256, 64, 256, 4), [0])
    with pytest.raises(ValueError, match="No common block size"):
        slots(tables.Sizes(1152, 256, 128, 4), [0])
    for requests in ([1, 0], [-1, 0]):
        with pytest.raises(Unsupported, match="order of their requests"):
            slots(tables.Sizes(128, 128, 128, 4), requests)
    with pytest.raises(Unsupported, match="no more"):
        slots(tables.Sizes(128, 128, 128, 4), [0], compiled=True)


def test_formats_pages_and_ops_that_vllm_has_not():
    whole = calls.Vllm(package(), None, CPU)
    with pytest.raises(Unsupported, match="vllm reads e4m3fn on this platform, the case has e4m3fnuz"):
        whole.mqa_logits(None, None, None, None, None, None, kv_dtype="e4m3fnuz", out=None, alloc=None)
    with pytest.raises(Unsupported, match="vllm:cpu does not implement topk_slots"):
        calls.Vllm(package(), "cpu", CPU).topk_slots(None, None, None, block_size=1, block_stride=1, out=None, alloc=None)
    with pytest.raises(Unsupported, match="page_size 1"):
        metadata.decode(package(), None, None, 16, 16, None, None, None)
    with pytest.raises(Unsupported, match="needs a GPU"):
        indexer.paged_kernel(package(), (), 1, None)


def test_its_functions_have_the_ops_arguments():
    for op in vllm.SPEC["ops"]:
        assert assemble.signature_problems(op, getattr(calls.Vllm(package(), None, CPU), op)) == []


def test_the_precision_is_declared_by_path():
    whole = calls.Vllm(package(), None, CPU)
    assert whole.precision("mqa_logits", {}, {}) == "fp32_any+u_s=bf16"
    assert whole.precision("paged_mqa_logits", {"next_n": 2}, {}) == "fp32_any+u_k=fp32"
    assert whole.precision("paged_mqa_logits", {"next_n": 1}, {}) == "fp32_any"
