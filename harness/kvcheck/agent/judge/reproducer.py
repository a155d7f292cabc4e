"""What a quick reproducer's fp32 reference gives: dequantise, multiply, relu, weigh, sum, all in fp32, overflow and NaN included.

Used for `topk_positional_match` alone, and only where the float64 reference is not finite: there the number that a reporter saw
depends on where fp32 overflows. Source: the script in vLLM issue 39303, in words.
"""

from __future__ import annotations

import importlib
from typing import Any

from kvcheck.agent.judge.evidence import Evidence


def fp32_logits(evidence: Evidence) -> Any:
    """The logits in fp32: [rows, max_model_len] float32, -inf past each row's length."""
    import torch

    tensors, scalars = evidence.tensors, evidence.inputs.scalars
    batch, next_n, heads, _ = tensors["q"].shape
    weights = tensors["weights"].view(batch, next_n, 1, heads)
    logits = torch.full((batch, next_n, scalars["max_model_len"]), -torch.inf, device=evidence.expected.device)
    context = {name: tensors[name] for name in ("q", "kv_cache", "context_lens", "block_table")}
    for b, start, _, queries, keys, scale in importlib.import_module("kvcheck_references.paged_mqa_logits").terms(**context, **scalars):
        score = torch.relu(queries.float() @ (keys.float() * scale.float()[:, None]).T).view(next_n, heads, -1)
        logits[b, :, start : start + len(keys)] = (weights[b, :, 0, :, None] * score).sum(1)
    return logits.view(batch * next_n, -1).masked_fill_(~evidence.inside(), -torch.inf)
