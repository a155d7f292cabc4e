"""FP8 MQA logits: the prefill indexer's score of every gathered token."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.inputs import index_cache, keys, reduced, windows
from kvcheck.agent.inputs.bundle import Inputs
from kvcheck.agent.layouts import fp8

SPEC = {
    "op": "mqa_logits",
    "summary": "prefill indexer logits: sum over heads of weight * relu(q . k * scale), for a window of contiguous keys a row",
    "axes": {
        "rows": {"type": "int", "min": 1, "max": 1048576, "default": 64, "unit": "tokens", "doc": "query tokens"},
        "tokens": {"type": "int", "min": 1, "max": 16777216, "default": 1024, "unit": "tokens", "doc": "gathered keys"},
        "num_heads": {"type": "int", "min": 1, "max": 1024, "default": 64, "unit": "heads", "doc": "indexer heads"},
        "head_dim": {"type": "int", "min": 16, "max": 1024, "multiple_of": 16, "default": 128, "doc": "QK width"},
        "window": {"type": "choice", "choices_from": "windows", "default": "packed", "doc": "which tokens each row sees"},
        "kv_dtype": {
            "type": "choice",
            "choices": {
                "auto": {"doc": "what the device's kernels use: e4m3fnuz on gfx942, else e4m3fn"},
                "e4m3fn": {"doc": "OCP FP8, largest 448"},
                "e4m3fnuz": {"doc": "FNUZ FP8 of gfx942, largest 240"},
            },
            "default": "auto",
            "doc": "FP8 format of q and the keys",
        },
        "values": {"type": "choice", "choices_from": "values", "default": "gaussian", "doc": "value distribution"},
        "scale": {"type": "choice", "choices_from": "scale", "default": "amax", "doc": "how key scales are chosen"},
        "poison": {"type": "choice", "choices_from": "poison", "default": "auto", "doc": "content of tokens that no row sees"},
    },
    "constraints": [],
    "relations": ["repeat", "batch_neighbour", "padded_batch"],
    "boundaries": {"tokens": [64, 128, 256], "rows": [64]},
}


def make_inputs(case: dict[str, Any], generator: Any) -> Inputs:
    """The arguments of `mqa_logits(q, k, k_scale, weights, ks, ke, *, kv_dtype, out, alloc)`.

    Args:
        case: resolved params; `kv_dtype` and `poison` not `auto`.
        generator: an `inputs.random.Generator`.

    Returns:
        inputs: the call on the CPU. Tensors, one a line:
            q: [rows, num_heads, head_dim] float8. Queries.
            k: [tokens, head_dim] float8. Keys.
            k_scale: [tokens] float32. Key scales, above zero where a row sees the token.
            weights: [rows, num_heads] float32. Head weights; the caller's scales are folded in.
            ks: [rows] int32. First column of each row's window.
            ke: [rows] int32. One past its last column.
            out: [rows, tokens] float32. Logits.

    Conventions:
        Columns are absolute, never shifted by ks. Row i sees ks[i] <= column < ke[i]; a row with ke <= ks sees nothing, which is legal.
        Outside its window a row holds -inf or stays untouched.

    Raises:
        ValueError: too many tokens for a beacon's digits.

    Source: ROCm/aiter@e4048607a5 aiter/ops/triton/attention/fp8_mqa_logits.py; deepseek-ai/DeepGEMM@54e2261 csrc/apis/attention.hpp.
    """
    import torch

    rows, tokens, dtype = case["rows"], case["tokens"], fp8.torch_dtype(case["kv_dtype"])
    shape = keys.Shape(case["num_heads"], case["head_dim"], tokens)
    ks, ke = windows.build(case["window"], rows, tokens, generator)
    inside = windows.mask(ks, ke, tokens)
    k = torch.empty(tokens, case["head_dim"], dtype=torch.uint8)
    k_scale = torch.empty(tokens, dtype=torch.float32)
    step = max(index_cache.CHUNK // case["head_dim"], 1)
    for start in range(0, tokens, step):
        slots = torch.arange(start, min(start + step, tokens))
        numbers, scales = keys.tokens(case["values"], shape, generator, "keys/0", start, slots)
        quantised = index_cache.quantise(case, numbers, scales, generator, 0, start)
        k[slots], k_scale[slots] = reduced.tokens(case, slots, 1, quantised)
    if case["poison"] != "none":
        unseen = ~inside.any(0)
        k[unseen], k_scale[unseen] = index_cache.poison_token(case["poison"], case["head_dim"], case["kv_dtype"])
    q, weights = keys.queries(case["values"], shape, generator, rows)
    return Inputs(
        tensors={
            "q": fp8.encode(q, case["kv_dtype"]).view(dtype),
            "k": k.view(dtype),
            "k_scale": k_scale,
            "weights": weights.float().contiguous(),
            "ks": ks,
            "ke": ke,
        },
        scalars={"kv_dtype": case["kv_dtype"]},
        outputs={"logits": ((rows, tokens), torch.float32)},
        exact=case["values"] in keys.EXACT,
        inside={"logits": inside},
        axes={"logits": ("row", "token")},
    )


def checks(case: dict[str, Any]) -> tuple[str, ...]:
    """The checks a case goes through, in order (HOUSE order); names of `kvcheck.agent.judge`."""
    return ("premise_window", "shape", "input_mutated", "guards", "sentinel", "finite_mask", "bound", "repeat")
