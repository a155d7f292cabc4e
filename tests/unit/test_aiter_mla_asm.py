"""The call of aiter's assembly MLA: its arguments against the package's own source, and what it is given against the op's reference."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest
import torch

from kvcheck.agent import specs
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.ops import mla_decode
from kvcheck.agent.protocol import Unsupported
from kvcheck.agent.providers import torch_eager
from kvcheck.agent.providers._aiter import mla_asm

DEFAULTS = {name: axis.default for name, axis in specs.axes("mla_decode").items()}


def given(**changes):
    case = {**DEFAULTS, "poison": "zero", "context_len": [70, 33], "batch": 2, "num_heads": 4, "next_n": 2, **changes}
    inputs = mla_decode.make_inputs(case, Generator(1))
    outputs = {name: torch.full(shape, 7.0, dtype=dtype) for name, (shape, dtype) in inputs.outputs.items()}
    return inputs, outputs


def call(function, inputs, outputs):
    kept = ("page_size", "softmax_scale", "kv_format", "num_splits")
    mla_asm.call(function, **inputs.tensors, **{name: inputs.scalars[name] for name in kept}, **outputs)


def stand_in(inputs, with_lse):
    """A kernel with aiter's signature, which undoes what the call has done and asks ours."""

    def compute(q, kv_buffer, o, qo_indptr, kv_indptr, kv_indices, kv_last_page_lens, max_seqlen_q, sm_scale, num_kv_splits):
        batch, heads = len(kv_last_page_lens), q.shape[1]
        assert qo_indptr.tolist() == [max_seqlen_q * n for n in range(batch + 1)]
        assert sm_scale == inputs.scalars["softmax_scale"] and num_kv_splits == inputs.scalars["num_splits"]
        out, lse = (torch.empty(shape, dtype=dtype) for shape, dtype in inputs.outputs.values())
        cache = kv_buffer.view(torch.uint8).view(inputs.tensors["kv_cache"].shape)
        tensors = {"kv_cache": cache, "kv_indptr": kv_indptr, "kv_indices": kv_indices, "last_page_len": kv_last_page_lens}
        q = q.view(batch, max_seqlen_q, heads, -1)
        torch_eager.mla_decode(q=q, **tensors, **inputs.scalars, out=out, lse=lse, alloc=None)
        o.copy_(out.view(o.shape))
        return None, lse.view(-1, heads)

    def newest(
        q, kv_buffer, o, qo_indptr, kv_indptr, kv_indices, kv_last_page_lens, max_seqlen_q, page_size=1, nhead_kv=1, sm_scale=None,
        logit_cap=0.0, num_kv_splits=None, return_lse=False,
    ):  # fmt: skip
        assert page_size == kv_buffer.shape[1] and nhead_kv == 1 and return_lse
        return compute(q, kv_buffer, o, qo_indptr, kv_indptr, kv_indices, kv_last_page_lens, max_seqlen_q, sm_scale, num_kv_splits)

    def oldest(
        q, kv_buffer, o, qo_indptr, kv_indptr, kv_indices, kv_last_page_lens, max_seqlen_q, sm_scale=None, logit_cap=0.0, num_kv_splits=None
    ):
        return compute(q, kv_buffer, o, qo_indptr, kv_indptr, kv_indices, kv_last_page_lens, max_seqlen_q, sm_scale, num_kv_splits)[0]

    return newest if with_lse else oldest


@pytest.mark.parametrize("page_size", [1, 64])
@pytest.mark.parametrize("with_lse", [True, False])
def test_the_call_says_what_the_op_means(page_size, with_lse):
    inputs, outputs = given(page_size=page_size)
    call(stand_in(inputs, with_lse), inputs, outputs)
    wanted = {name: torch.empty_like(tensor) for name, tensor in outputs.items()}
    torch_eager.mla_decode(**inputs.tensors, **inputs.scalars, **wanted, alloc=None)
    assert torch.equal(outputs["out"], wanted["out"])
    assert torch.equal(outputs["lse"], wanted["lse"] if with_lse else torch.full_like(wanted["lse"], 7.0))


def test_what_it_is_not_written_for_is_refused():
    def never(*_, **__):
        raise AssertionError("called")

    for changes, reason in (({"kv_format": "fp16"}, "bf16 latents"), ({"context_len": [70, 0]}, "shorter than its query")):
        with pytest.raises(Unsupported, match=reason):
            call(never, *given(**changes))
    with pytest.raises(Unsupported, match="has no parameter qo_indptr"):
        call(lambda q, kv_buffer, o: None, *given())


def test_the_package_s_own_source_has_the_arguments():
    found = importlib.util.find_spec("aiter")
    if found is None or found.origin is None:
        pytest.skip("aiter is not installed here")
    tree = ast.parse((Path(found.origin).parent / "mla.py").read_text())
    (function,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "mla_decode_fwd"]
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    without_default = names[: len(function.args.args) - len(function.args.defaults)]
    assert set(without_default) == set(mla_asm.REQUIRED)
    assert {"sm_scale", "num_kv_splits"} <= set(names) & set(mla_asm.OPTIONAL)
