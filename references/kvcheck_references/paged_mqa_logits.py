"""Reference of `paged_mqa_logits`: decode indexer logits in float64, vectorised, chunked over positions.

Source: ROCm/aiter@e4048607a5 aiter/ops/triton/_triton_kernels/attention/pa_mqa_logits.py; deepseek-ai/DeepSeek-V3.2-Exp@3b99a53
inference/kernel.py. Differences: (1) float64 throughout; (2) the key scale is applied before relu, which is the same for
scales above zero; (3) NaN goes through relu, where the kernels turn it into 0, so that bad data shows.
"""

from __future__ import annotations

from functools import lru_cache

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
    device = q.device
    numbers = _numbers(kv_dtype, device)
    lengths = context_lens.long()
    if lengths.dim() == 1:
        lengths = lengths[:, None] - next_n + 1 + torch.arange(next_n, device=device)  # [batch, next_n]
    lengths = lengths.clamp(min=0)
    longest = lengths.amax(1).tolist()
    logits = torch.full((batch * next_n, max_model_len), float("-inf"), dtype=torch.float64, device=device)
    pages = kv_cache.reshape(kv_cache.shape[0], block_size * (head_dim + 4))  # [num_blocks, bytes]
    step = max(CHUNK_BYTES // (8 * next_n * max(num_heads, head_dim)), 1)
    dims = torch.arange(head_dim, device=device)
    for b in range(batch):
        queries = numbers[q[b].view(torch.uint8).int()].view(next_n * num_heads, head_dim)
        weight = weights[b * next_n : (b + 1) * next_n].double()  # [next_n, num_heads]
        for start in range(0, min(longest[b], max_model_len), step):
            position = torch.arange(start, min(start + step, longest[b], max_model_len), device=device)
            page = block_table[b, position // block_size].long()[:, None]
            offset = (position % block_size)[:, None]
            keys = numbers[pages[page, offset * head_dim + dims].int()]  # [positions, head_dim]
            scale = pages[page, block_size * head_dim + 4 * offset + dims[:4]].contiguous().view(torch.float32).double()
            score = torch.relu((queries @ keys.T) * scale.T).view(next_n, num_heads, -1)
            row = torch.einsum("jh,jhp->jp", weight, score)
            inside = position[None, :] < lengths[b][:, None]
            logits[b * next_n : (b + 1) * next_n, start : start + len(position)] = torch.where(inside, row, float("-inf"))
    return logits


@lru_cache(maxsize=None)
def _numbers(kv_dtype: str, device: torch.device) -> torch.Tensor:
    """The 256 numbers of an FP8 format by code, NaN codes as NaN: [256] float64."""
    code = torch.arange(256)
    exponent, mantissa = (code >> 3) & 15, (code & 7).double() / 8
    bias = {"e4m3fn": 7, "e4m3fnuz": 8}[kv_dtype]
    magnitude = torch.where(exponent > 0, torch.ldexp(1 + mantissa, exponent - bias), torch.ldexp(mantissa, torch.tensor(1 - bias)))
    numbers = torch.where(code > 127, -magnitude, magnitude)
    for nan in {"e4m3fn": (0x7F, 0xFF), "e4m3fnuz": (0x80,)}[kv_dtype]:
        numbers[nan] = float("nan")
    return numbers.to(device)
