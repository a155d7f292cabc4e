"""Prefill indexer logits by the plain fp32 formula."""

from __future__ import annotations

from typing import Any

ROWS = 64
"""Query rows at a time: bounds the [rows, num_heads, tokens] scores."""


def mqa_logits(q: Any, k: Any, k_scale: Any, weights: Any, ks: Any, ke: Any, *, kv_dtype: str, out: Any, alloc: Any) -> None:
    """Scores every key against some rows at a time, and masks what lies outside each row's window."""
    import torch

    torch.set_float32_matmul_precision("highest")  # no TF32, whatever an environment variable asks for
    fp8 = {"e4m3fn": torch.float8_e4m3fn, "e4m3fnuz": torch.float8_e4m3fnuz}[kv_dtype]
    keys = k.view(torch.uint8).view(fp8).float()
    column = torch.arange(k.shape[0], device=k.device)
    for first in range(0, len(q), ROWS):
        some = slice(first, first + ROWS)
        query = q[some].view(torch.uint8).view(fp8).float()
        score = torch.relu(query.flatten(0, 1) @ keys.T * k_scale).view(*query.shape[:2], -1)
        logits = (weights[some, :, None] * score).sum(1)
        inside = (column >= ks[some, None]) & (column < ke[some, None])
        out[some] = torch.where(inside, logits, float("-inf"))
