"""Reference of `paged_mqa_logits`: decode indexer logits in float64, vectorised, chunked over positions.

Source: ROCm/aiter@e4048607a5 aiter/ops/triton/_triton_kernels/attention/pa_mqa_logits.py; deepseek-ai/DeepSeek-V3.2-Exp@3b99a53
inference/kernel.py. Differences: (1) float64 throughout; (2) the key scale is applied before relu, which is the same for
scales above zero; (3) NaN goes through relu, where the kernels turn it into 0, so that bad data shows.
"""

from __future__ import annotations

import torch

CHUNK_BYTES = 1 << 26
"""Bytes of one float64 [next_n * num_heads, positions] intermediate."""


def paged_mqa_logits(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    weights: torch.Tensor,
    context_lens: torch.Tensor,
    block_table: torch.Tensor,
    *,
    max_model_len: int,
    block_size: int,
    kv_dtype: str,
    out: object,
    alloc: object,
) -> torch.Tensor:
    """FP8 paged MQA logits of the decode indexer.

    logits[r, p] = sum over h of weights[r, h] * relu(q[b, j, h] . key[slot(b, p)] * scale[slot(b, p)])

    Args:
        q: [batch, next_n, num_heads, head_dim] float8. Queries.  # [batch, next_n, num_heads, head_dim]
        kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. Block-flat.  # [num_blocks, block_size, 1, head_dim + 4]
        weights: [batch * next_n, num_heads] float32. Head weights.  # [batch * next_n, num_heads]
        context_lens: [batch] int32 lengths, or [batch, next_n] int32 per-row lengths.  # [batch] or [batch, next_n]
        block_table: [batch, width] int32. Page ids; columns that no token needs are not read.  # [batch, width]
        max_model_len: columns of the result.
        block_size: tokens a page.
        kv_dtype: e4m3fn or e4m3fnuz.
        out, alloc: not used.

    Returns:
        logits: [batch * next_n, max_model_len] float64. -inf at and past each row's length.  # [batch * next_n, max_model_len]

    Conventions: row b * next_n + j sees context_len - next_n + 1 + j positions, or its per-row length; never fewer than none.
    """
    batch, next_n, num_heads, head_dim = q.shape
    fp8 = {"e4m3fn": torch.float8_e4m3fn, "e4m3fnuz": torch.float8_e4m3fnuz}[kv_dtype]
    lengths = [n if isinstance(n, list) else [n - next_n + 1 + j for j in range(next_n)] for n in context_lens.tolist()]  # [batch][next_n]
    pages = kv_cache.view(kv_cache.shape[0], block_size * (head_dim + 4))  # [num_blocks, bytes]
    values = pages[:, : block_size * head_dim].unflatten(1, (block_size, head_dim))  # [num_blocks, block_size, head_dim]
    scales = pages[:, block_size * head_dim :].view(torch.float32)  # [num_blocks, block_size]
    queries = q.view(torch.uint8).view(fp8).double().view(batch, next_n * num_heads, head_dim)
    weights = weights.double().view(batch, next_n, 1, num_heads)
    logits = torch.full((batch, next_n, max_model_len), float("-inf"), dtype=torch.float64, device=q.device)
    step = max(CHUNK_BYTES // (8 * next_n * max(num_heads, head_dim)), 1)
    for b in range(batch):
        longest = min(max(lengths[b]), max_model_len)
        for start in range(0, longest, step):
            position = torch.arange(start, min(start + step, longest), device=q.device)
            page, offset = block_table[b, position // block_size].long(), position % block_size
            keys = values[page, offset].view(fp8).double()  # [positions, head_dim]
            score = torch.relu((queries[b] @ keys.T) * scales[page, offset].double()).view(next_n, num_heads, -1)
            logits[b, :, start : start + len(position)] = (weights[b] @ score)[:, 0]  # [next_n, positions]
        for j, length in enumerate(lengths[b]):
            if length < longest:
                logits[b, j, max(length, 0) : longest] = float("-inf")
    return logits.view(batch * next_n, max_model_len)
