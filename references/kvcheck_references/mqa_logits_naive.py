"""A second reference of `mqa_logits`, written independently: plain loops over numbers, its own bit-by-bit FP8 decoding.

Slow on purpose; tests hold the fast reference against it.
Source: the formula of SEMANTICS in words; no code is shared with `mqa_logits`.
"""

from __future__ import annotations

import math

import torch


def mqa_logits(
    q: torch.Tensor,
    k: torch.Tensor,
    k_scale: torch.Tensor,
    weights: torch.Tensor,
    ks: torch.Tensor,
    ke: torch.Tensor,
    *,
    kv_dtype: str,
    out: object,
    alloc: object,
) -> torch.Tensor:
    """FP8 MQA logits of the prefill indexer, one number at a time.

    Args:
        q: [rows, num_heads, head_dim] float8. Queries.  # [rows, num_heads, head_dim]
        k: [tokens, head_dim] float8. Keys.  # [tokens, head_dim]
        k_scale: [tokens] float32. Key scales.  # [tokens]
        weights: [rows, num_heads] float32. Head weights.  # [rows, num_heads]
        ks: [rows] int32. First column of each row.  # [rows]
        ke: [rows] int32. One past the last column of each row.  # [rows]
        kv_dtype: e4m3fn or e4m3fnuz.
        out, alloc: not used.

    Returns:
        logits: [rows, tokens] float64. -inf outside the windows.  # [rows, tokens]
    """
    numbers = [_number(code, kv_dtype) for code in range(256)]
    query, key = ([[numbers[c] for c in row] for row in side.view(torch.uint8).flatten(0, -2).tolist()] for side in (q, k))
    scale, weight = k_scale.tolist(), weights.tolist()
    heads, tokens = q.shape[1], k.shape[0]
    logits = []
    for row, (first, end) in enumerate(zip(ks.tolist(), ke.tolist(), strict=True)):
        line = [-math.inf] * tokens
        for column in range(tokens):
            if column < first or column >= end:
                continue
            total = 0.0
            for head in range(heads):
                score = math.fsum(a * b for a, b in zip(query[row * heads + head], key[column], strict=True)) * scale[column]
                total += weight[row][head] * (0.0 if score <= 0 else score)
            line[column] = total
        logits.append(line)
    return torch.tensor(logits, dtype=torch.float64)


def _number(code: int, kv_dtype: str) -> float:
    """The number that an FP8 code stands for."""
    sign, exponent, fraction = code >> 7, code >> 3 & 15, code & 7
    if (code == 0x80) if kv_dtype == "e4m3fnuz" else (code & 0x7F) == 0x7F:
        return math.nan
    bias = 8 if kv_dtype == "e4m3fnuz" else 7
    size = fraction * 2.0 ** (-2 - bias) if exponent == 0 else (8 + fraction) * 2.0 ** (exponent - bias - 3)
    return -size if sign else size
