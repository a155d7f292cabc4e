"""Reference of `mqa_logits`: prefill indexer logits in float64, vectorised, chunked over rows and columns.

Source: ROCm/aiter@e4048607a5 aiter/ops/triton/_triton_kernels/attention/fp8_mqa_logits.py; deepseek-ai/DeepGEMM@54e2261
tests/test_attention.py. Differences: (1) float64 throughout; (2) the key scale is applied before relu, which is the same for scales
above zero; (3) NaN goes through relu; (4) windows beyond the keys are clamped, as aiter does and DeepGEMM does not.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

CHUNK_BYTES = 1 << 26
"""Bytes of one float64 [rows, num_heads, columns] intermediate."""

COLUMNS = 2048


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
    """FP8 MQA logits of the prefill indexer.

    logits[i, n] = sum over h of weights[i, h] * relu(q[i, h] . k[n] * k_scale[n]) for ks[i] <= n < ke[i]

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

    Conventions: columns are absolute; a row with ke <= ks sees nothing.
    """
    rows, tokens = q.shape[0], k.shape[0]
    logits = torch.full((rows, tokens), float("-inf"), dtype=torch.float64, device=q.device)
    for some, span, score, _, _, _ in terms(q, k, k_scale, ks, ke, kv_dtype=kv_dtype):
        logits[some, span] = (weights[some].double()[:, None] @ score)[:, 0]
    column = torch.arange(tokens, device=q.device)
    return logits.masked_fill_((column < ks[:, None]) | (column >= ke[:, None]), float("-inf"))


def terms(
    q: torch.Tensor, k: torch.Tensor, k_scale: torch.Tensor, ks: torch.Tensor, ke: torch.Tensor, *, kv_dtype: str
) -> Iterator[tuple[slice, slice, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]]:
    """What the logits are summed from, chunk by chunk, where some window reaches; an error bound is summed from the same.

    Args:
        q, k, k_scale, ks, ke, kv_dtype: as of `mqa_logits`.

    Yields:
        rows, columns: slices of the chunk.
        score: [rows, num_heads, columns] float64. relu(q . key * scale).  # [rows, num_heads, columns]
        queries: [rows * num_heads, head_dim] float64.  # [rows * num_heads, head_dim]
        keys: [columns, head_dim] float64.  # [columns, head_dim]
        scale: [columns] float64.  # [columns]
    """
    rows, num_heads, head_dim = q.shape
    fp8 = {"e4m3fn": torch.float8_e4m3fn, "e4m3fnuz": torch.float8_e4m3fnuz}[kv_dtype]
    keys, queries = (side.view(torch.uint8).view(fp8) for side in (k, q))
    step = max(CHUNK_BYTES // (8 * num_heads * min(COLUMNS, k.shape[0])), 1)
    for first in range(0, rows, step):
        some = slice(first, min(first + step, rows))
        seen = ks[some] < ke[some]
        if not bool(seen.any()):
            continue
        low, high = max(int(ks[some][seen].min()), 0), min(int(ke[some][seen].max()), k.shape[0])
        query = queries[some].double().reshape(-1, head_dim)
        for start in range(low, high, COLUMNS):
            span = slice(start, min(start + COLUMNS, high))
            key, scale = keys[span].double(), k_scale[span].double()
            yield some, span, torch.relu((query @ key.T) * scale).view(-1, num_heads, len(key)), query, key, scale
