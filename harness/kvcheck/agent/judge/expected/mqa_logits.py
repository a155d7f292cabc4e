"""Logits of windows, and the bound of NUMERICS 1: the factors are those of the paged op, the pass over the keys its own."""

from __future__ import annotations

import importlib
from typing import Any

from kvcheck.agent.judge import bounds


def expected(inputs: Any, tensors: dict[str, Any], model: Any) -> dict[str, tuple[Any, Any]]:
    """Value and bound of the output.

    Args:
        inputs: the call.
        tensors: its tensors on the case's device.
        model: precision of the kernel.

    Returns:
        logits: ([rows, tokens] float64, [rows, tokens] float64). -inf and 0 outside the windows.
    """
    import torch

    q, weights = tensors["q"], tensors["weights"].double()
    rows, heads, dim = q.shape
    share, of_relu = bounds.factors(model, heads, dim, inputs.exact)
    value = torch.full((rows, tensors["k"].shape[0]), -torch.inf, dtype=torch.float64, device=q.device)
    bound = torch.zeros_like(value)
    given = {name: tensors[name] for name in ("q", "k", "k_scale", "ks", "ke")}
    terms = importlib.import_module("kvcheck_references.mqa_logits").terms
    for some, span, score, queries, keys, scale in terms(**given, **inputs.scalars):
        sizes = weights[some].abs()[:, None]
        value[some, span] = (weights[some][:, None] @ score)[:, 0]
        total = (sizes @ score)[:, 0] * of_relu
        if share:
            reach = (sizes @ queries.abs().view(-1, heads, dim))[:, 0]
            total.addcmul_(reach @ keys.abs().T, scale.abs(), value=share)
        if not inputs.exact:
            total += (sizes.sum(2) + heads * (2 + scale.abs())) * bounds.FLUSH
        if model.kind != "any_order" and not inputs.exact:
            running = bounds.running_error(queries, keys, inputs.scalars["kv_dtype"], model).view(-1, heads, len(keys))
            total.addcmul_((sizes @ running)[:, 0], scale.abs(), value=bounds.factors(model, heads, dim, inputs.exact, running=True)[0])
        bound[some, span] = total
    outside = ~inputs.inside["logits"].to(q.device)
    value.masked_fill_(outside, -torch.inf)
    bound.masked_fill_(outside, 0)
    return {"logits": (value, bounds.add_output_rounding(bound, value, model))}
