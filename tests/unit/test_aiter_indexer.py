"""aiter's indexer entry points: their signatures in the package's real source, and the calls that a stand-in of ROCm is given."""

from __future__ import annotations

import ast
import importlib.util
import sys
import types
from pathlib import Path

import pytest
import torch

from kvcheck.agent.protocol import Unsupported
from kvcheck.agent.providers._aiter import indexer

HIP = {"indexer_k_quant_and_cache": indexer.WRITER, "cp_gather_indexer_k_quant_cache": indexer.GATHER}


def package() -> Path:
    """The installed aiter's folder, found without importing it."""
    found = importlib.util.find_spec("aiter")
    if found is None or found.origin is None:
        pytest.skip("aiter is not installed")
    return Path(found.origin).parent


def parameters(file: Path, name: str) -> list[str]:
    tree = ast.parse(file.read_text())
    return [arg.arg for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name for arg in node.args.args]


@pytest.mark.parametrize("name", sorted(HIP))
def test_the_hip_entry_points_of_the_package_take_what_is_passed(name):
    names = parameters(package() / "ops/cache.py", name)
    assert tuple(names[:5]) == HIP[name] and set(names[5:]) <= {"preshuffle"}


def test_the_logits_of_the_package_take_what_is_passed():
    files = [package().joinpath(*name.split(".")[1:]).with_suffix(".py") for name in indexer.LOGITS]
    (file,) = [file for file in files if file.is_file()]
    assert parameters(file, "fp8_mqa_logits")[:6] == ["Q", "KV", "kv_scales", "weights", "cu_starts", "cu_ends"]


@pytest.fixture
def made(monkeypatch):
    """One bound aiter on a machine that says it is a gfx950 with ROCm, with entry points that note their arguments."""
    seen, module = {}, types.ModuleType("aiter")

    def indexer_k_quant_and_cache(k, kv_cache, slot_mapping, quant_block_size, scale_fmt, preshuffle=False):
        seen["write"] = (tuple(kv_cache.shape), quant_block_size, scale_fmt, preshuffle)

    def cp_gather_indexer_k_quant_cache(kv_cache, dst_k, dst_scale, block_table, cu_seq_lens):
        seen["gather"] = (tuple(kv_cache.shape), dst_k.dtype, tuple(dst_scale.shape))

    module.indexer_k_quant_and_cache, module.cp_gather_indexer_k_quant_cache = indexer_k_quant_and_cache, cp_gather_indexer_k_quant_cache
    monkeypatch.setitem(sys.modules, "aiter", module)
    machine = types.SimpleNamespace(rocm=True, fp8="e4m3fn", arch="gfx950", backend="hip")
    source = types.SimpleNamespace(directory=None, name=lambda: "aiter of this test")
    bound = types.SimpleNamespace(machine=machine, source=source, plain=True, variant=None, dispatch=lambda op: None, precision=None)
    return indexer.attach(bound), seen


WRITE = {"block_size": 16, "kv_dtype": "e4m3fn", "scale_format": "ue8m0", "divisor": 448, "layout": "shuffled", "alloc": None}


def test_the_writer_is_called_through_its_documented_signature(made):
    bound, seen = made
    keys, slots, cache = torch.zeros(3, 128, dtype=torch.bfloat16), torch.arange(3), torch.zeros(2, 16, 1, 132, dtype=torch.uint8)
    bound.index_k_cache_write(keys, slots, **WRITE, out=cache)
    assert seen["write"] == ((2, 16, 132), 128, "ue8m0", True) and "HIP" in bound.dispatch("index_k_cache_write")
    bound.index_k_cache_write(keys, slots, **{**WRITE, "scale_format": "fp32", "layout": "block_flat"}, out=cache)
    assert seen["write"][2:] == ("", False)
    for wrong, why in (({"divisor": 224}, "divides by 448"), ({"kv_dtype": "e4m3fnuz"}, "for e4m3fn")):
        with pytest.raises(Unsupported, match=why):
            bound.index_k_cache_write(keys, slots, **{**WRITE, **wrong}, out=cache)
    with pytest.raises(Unsupported, match="block stride is 4224"):
        bound.index_k_cache_write(keys, slots, **WRITE, out=torch.zeros(4, 16, 1, 132, dtype=torch.uint8)[::2])


def test_the_gather_is_called_through_its_documented_signature(made):
    bound, seen = made
    tensors = (torch.zeros(2, 16, 1, 132, dtype=torch.uint8), torch.zeros(1, 2, dtype=torch.int32), torch.tensor([0, 3], dtype=torch.int32))
    rest = {"block_size": 16, "kv_dtype": "e4m3fn", "alloc": None, "k": torch.zeros(8, 128, dtype=torch.uint8), "k_scale": torch.zeros(8)}
    bound.index_k_cache_gather(*tensors, layout="block_flat", **rest)
    assert seen["gather"] == ((2, 16, 132), torch.float8_e4m3fn, (8, 1))
    with pytest.raises(Unsupported, match="no argument preshuffle"):
        bound.index_k_cache_gather(*tensors, layout="shuffled", **rest)


def test_without_rocm_the_reason_is_given(made):
    bound, _ = made
    bound.machine.rocm = False
    with pytest.raises(Unsupported, match="HIP kernel that aiter builds on ROCm"):
        bound.index_k_cache_write(None, None, **WRITE, out=None)
