"""The stand-ins of `kvcheck vet` compute what the references compute, and installed packages are watched where they lie."""

from __future__ import annotations

import importlib
import sys

import pytest
import torch

from kvcheck.agent.vet.entries import Call, bind
from kvcheck.agent.vet.metrics import filler, lets_through, lists
from kvcheck.agent.vet.standins import Finder, order_of
from kvcheck_references.mqa_logits import mqa_logits
from kvcheck_references.paged_mqa_logits import paged_mqa_logits


def inputs(batch, next_n, block_size, length):
    torch.manual_seed(0)
    width = -(-length // block_size)
    keys = torch.randn(batch * width, block_size, 128)
    scales = keys.abs().amax(-1) / 448
    stored = (keys / scales[..., None]).to(torch.float8_e4m3fn).view(torch.uint8)
    cache = torch.cat([stored.reshape(batch * width, -1), scales.view(torch.uint8)], 1).view(batch * width, block_size, 1, 132)
    q = torch.randn(batch, next_n, 8, 128).to(torch.float8_e4m3fn)
    table = torch.randperm(batch * width).int().view(batch, width)
    return q, cache, torch.rand(batch * next_n, 8), torch.tensor([length - 3 * b for b in range(batch)]).int(), table


@pytest.mark.parametrize(("batch", "next_n", "block_size"), [(1, 1, 1), (2, 2, 1), (2, 1, 16), (3, 2, 64)])
@pytest.mark.parametrize("name", ["deepgemm_fp8_paged_mqa_logits_stage1", "deepgemm_fp8_paged_mqa_logits"])
def test_paged(name, batch, next_n, block_size):
    q, cache, weights, lens, table = inputs(batch, next_n, block_size, 90)
    per_head = name.endswith("stage1")
    out = torch.full((8, batch * next_n, 128) if per_head else (batch * next_n, 128), 7.0)
    call = Call(
        name, bind(name, None, (q, cache), dict(weights=weights, out_qk=out, context_lens=lens, kv_indices=table, max_model_len=128))
    )
    call.write(out, wrong=False)
    wanted = paged_mqa_logits(
        q, cache, weights, lens, table, max_model_len=128, block_size=block_size, kv_dtype="e4m3fn", out=None, alloc=None
    )
    torch.testing.assert_close((out.sum(0) if per_head else out).double(), wanted, rtol=1e-5, atol=1e-4)
    facts = call.facts()
    assert (facts["nan_tokens"], facts["scales_negative"], facts["reference_finite"], facts["table"]) == (0, 0, 1, "mixed")
    call.write(out, wrong=True)
    assert not torch.allclose((out.sum(0) if per_head else out).double(), wanted, rtol=1e-2, atol=1e-2)


def test_ragged_and_prefill():
    q, cache, weights, lens, table = inputs(2, 1, 1, 90)
    slots = torch.cat([table[b, : int(n)] for b, n in enumerate(lens)])
    ends = torch.tensor([0, *lens.cumsum(0)]).int()
    name = "deepgemm_fp8_paged_mqa_logits_ragged_k"
    out = torch.zeros(2, 128)
    Call(name, bind(name, None, (q, cache, weights, out, ends, slots, 128), {})).write(out, wrong=False)
    wanted = paged_mqa_logits(q, cache, weights, lens, table, max_model_len=128, block_size=1, kv_dtype="e4m3fn", out=None, alloc=None)
    torch.testing.assert_close(out.double(), wanted, rtol=1e-5, atol=1e-4)
    keys, scales = cache[..., :128].contiguous().view(torch.float8_e4m3fn).view(-1, 128), cache[..., 128:].contiguous().view(torch.float32)
    starts, stops = torch.tensor([0, 20]).int(), torch.tensor([50, 90]).int()
    for given in ((q[:, 0], keys, scales.flatten(), weights, starts, stops), (q[:, 0], (keys, scales.flatten()), weights, starts, stops)):
        call = Call("fp8_mqa_logits", bind("fp8_mqa_logits", None, given, {}))
        out = torch.zeros(2, len(keys))
        call.write(out, wrong=False)
        plain = mqa_logits(q[:, 0], keys, scales.flatten(), weights, starts, stops, kv_dtype="e4m3fn", out=None, alloc=None)
        torch.testing.assert_close(out.double(), plain, rtol=1e-5, atol=1e-4)


def test_relu_of_a_gpu_drops_nan_where_the_reference_keeps_it():
    q, cache, weights, lens, table = inputs(1, 1, 1, 90)
    cache[int(table[0, 5]), 0, 0, 3] = 0x7F
    out = torch.zeros(1, 128)
    name = "deepgemm_fp8_paged_mqa_logits"
    call = Call(name, bind(name, None, (q, cache, weights, out, lens, table, 128), {}))
    call.write(out, wrong=False)
    assert out[0, 5] == 0 and call.rows[0][2][5].isnan()
    assert call.facts()["nan_tokens"] == pytest.approx(1 / 90)
    assert call.facts()["reference_finite"] == pytest.approx(89 / 90)


def test_numbers_of_a_metric():
    one, other = torch.arange(2048)[None], torch.tensor([[i for i in range(2049) if i != 10]])
    facts = lists(one, other, 2049)
    assert (facts["positional"], facts["overlap"], facts["outside"]) == (10 / 2048, 2047 / 2048, 0)
    assert filler(torch.tensor([[1.0, -1e30, -1e30, -3e33]]))["below"] == 1
    assert filler(torch.tensor([[1.0, float("-inf"), float("-inf")]]))["filler"] is None
    wanted = torch.tensor([[1.0, -2.0, 3.0, float("-inf")]])
    assert lets_through(wanted, 1e-4, 1e-4, False) == {"zeros": False, "mirrored": False, "refuses_rounding": False, "nan": 0.0}
    assert lets_through(wanted, 0.0, 10.0, False)["zeros"] and lets_through(wanted, 0.0, 10.0, False)["mirrored"]
    assert lets_through(wanted, 0.0, 0.0, False)["refuses_rounding"]


def test_an_installed_package_is_watched_and_otherwise_left_as_it_is(tmp_path, monkeypatch):
    (tmp_path / "deep_gemm.py").write_text(
        "def fp8_mqa_logits(q, kv, weights, starts, ends):\n    return 'real'\n\ndef other():\n    return 5\n"
    )
    seen = []

    def wrap(name, real):
        seen.append((name, order_of(real)))
        return lambda *args: (name, real(*args))

    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [Finder(wrap, real=True), *sys.meta_path])
    monkeypatch.delitem(sys.modules, "deep_gemm", raising=False)
    module = importlib.import_module("deep_gemm")
    monkeypatch.delitem(sys.modules, "deep_gemm")
    assert module.fp8_mqa_logits(1, 2, 3, 4, 5) == ("fp8_mqa_logits", "real")
    assert module.other() == 5
    assert seen == [("fp8_mqa_logits", ("q", "kv", "weights", "starts", "ends"))]
