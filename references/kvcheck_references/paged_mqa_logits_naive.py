"""A second reference of `paged_mqa_logits`, written independently: plain loops, its own bit-by-bit FP8 decoding, `struct` for scales.

Slow on purpose; tests hold the fast reference against it.
Source: the formula of SEMANTICS in words; no code is shared with `paged_mqa_logits`.
"""

from __future__ import annotations

import math
import struct

import torch


def paged_mqa_logits_naive(
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
    """FP8 paged MQA logits, one number at a time.

    Args:
        q: [batch, next_n, num_heads, head_dim] float8. Queries.  # [batch, next_n, num_heads, head_dim]
        kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. Block-flat.  # [num_blocks, block_size, 1, head_dim + 4]
        weights: [batch * next_n, num_heads] float32. Head weights.  # [batch * next_n, num_heads]
        context_lens: [batch] int32 lengths, or [batch, next_n] int32 per-row lengths.  # [batch] or [batch, next_n]
        block_table: [batch, width] int32. Page ids.  # [batch, width]
        max_model_len: columns of the result.
        block_size: tokens a page.
        kv_dtype: e4m3fn or e4m3fnuz.
        out, alloc: not used.

    Returns:
        logits: [batch * next_n, max_model_len] float64. -inf at and past each row's length.  # [batch * next_n, max_model_len]
    """
    batch, next_n, num_heads, head_dim = q.shape
    queries = bytes(q.contiguous().view(torch.uint8).flatten().tolist())
    blocks = [bytes(block.flatten().tolist()) for block in kv_cache.contiguous()]
    table, weight, lens = block_table.tolist(), weights.tolist(), context_lens.tolist()
    logits = []
    for row in range(batch * next_n):
        request, token = divmod(row, next_n)
        length = lens[request][token] if isinstance(lens[request], list) else lens[request] - (next_n - 1 - token)
        line = [-math.inf] * max_model_len
        for position in range(max(length, 0)):
            block = blocks[table[request][position // block_size]]
            inside = position % block_size
            key = block[inside * head_dim : (inside + 1) * head_dim]
            (scale,) = struct.unpack_from("<f", block, block_size * head_dim + 4 * inside)
            total = 0.0
            for head in range(num_heads):
                at = (row * num_heads + head) * head_dim
                dot = math.fsum(fp8_number(queries[at + d], kv_dtype) * fp8_number(key[d], kv_dtype) for d in range(head_dim))
                score = dot * scale
                total += weight[row][head] * (score if score > 0 or math.isnan(score) else 0.0)
            line[position] = total
        logits.append(line)
    return torch.tensor(logits, dtype=torch.float64)


def fp8_number(code: int, kv_dtype: str) -> float:
    """The number that an FP8 code stands for, from its bits."""
    sign = -1.0 if code >= 128 else 1.0
    bits = format(code % 128, "07b")
    exponent, fraction = int(bits[:4], 2), int(bits[4:], 2)
    if kv_dtype == "e4m3fnuz":
        if code == 128:
            return math.nan
        power = exponent - 8
    else:
        if bits == "1111111":
            return math.nan
        power = exponent - 7
    if exponent == 0:
        return sign * fraction * 2.0 ** (power + 1 - 3)
    return sign * (8 + fraction) * 2.0 ** (power - 3)
