"""Finds out how a kernel accumulates its dots, by inputs whose exact answer a narrow accumulator cannot hold.

Every FP8 code of queries and keys is 15, every scale and weight 1: a dot is head_dim * 225, an integer that fp32 holds in any
order and a 13-bit accumulator does not (from head_dim 73 on). Source: NUMERICS 6, exact modes.
"""

from __future__ import annotations

from typing import Any

from kvcheck.agent.inputs.arena import Arena
from kvcheck.agent.inputs.bundle import Inputs
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.judge import bounds
from kvcheck.agent.layouts import block_flat, fp8
from kvcheck.agent.precision import parse

DIGIT = 15.0
TOKENS = 64
CANDIDATES = ("fp32_any", "hopper_wgmma_fp8")
NARROW_FROM = 73
"""Smallest head_dim whose sum of squares of DIGIT needs more than 14 significant bits."""


def probe(op: Any, function: Any, params: dict[str, Any], device: Any) -> str | None:
    """The precision model that a kernel of `paged_mqa_logits` shows, for the head count and head_dim of a case.

    Args:
        op: the op's module.
        function: the kernel.
        params: resolved params of the case.
        device: torch device.

    Returns:
        model: "fp32_any" where the sums are exact, "hopper_wgmma_fp8" where they are off by what 13 bits lose; None where
            neither explains them, the kernel raises, or head_dim is too small to tell.
    """
    if params["head_dim"] < NARROW_FROM:
        return None
    inputs = _inputs(op, params)
    tensors = {name: tensor.to(device, copy=True) for name, tensor in inputs.tensors.items()}
    arena = Arena(device)
    (name, (shape, dtype)), *_ = inputs.outputs.items()
    out = arena.output(name, shape, dtype)
    try:
        result = function(**tensors, **inputs.scalars, out=out, alloc=arena.alloc)
    except Exception:
        return None  # the case itself will show what is wrong
    got = (out if result is None else result)[0, :TOKENS].double()
    difference = (got - params["num_heads"] * params["head_dim"] * DIGIT**2).abs()
    if float(difference.max()) == 0:
        return CANDIDATES[0]
    reach = bounds.logits_bound(tensors, inputs.scalars, inputs.row_lengths.to(device), parse(CANDIDATES[1]), False)[0, :TOKENS]
    return CANDIDATES[1] if bool((difference <= reach).all()) else None


def _inputs(op: Any, params: dict[str, Any]) -> Inputs:
    import torch

    simple = {"batch": 1, "next_n": 1, "context_len": TOKENS, "num_blocks": None, "block_table": "contiguous", "max_model_len": None}
    inputs = op.make_inputs({**params, **simple, "values": "exact_int", "scale": "amax", "poison": "zero"}, Generator(0))
    code = fp8.encode(torch.tensor([DIGIT], dtype=torch.float64), params["kv_dtype"])
    inputs.tensors["q"].view(torch.uint8).copy_(code)
    block_flat.values(inputs.tensors["kv_cache"]).copy_(code)
    block_flat.scales(inputs.tensors["kv_cache"]).fill_(1.0)
    inputs.tensors["weights"].fill_(1.0)
    return inputs
