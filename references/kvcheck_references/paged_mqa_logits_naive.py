"""A second reference of `paged_mqa_logits`, written independently: plain loops, its own bit-by-bit FP8 decoding, `struct` for scales.

Slow on purpose; tests hold the fast reference against it.
Source: the formula of SEMANTICS in words; no code is shared with `paged_mqa_logits`.
"""

from __future__ import annotations

import math
import struct

import torch


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


def shuffled_token(block: bytes, token: int, block_size: int, head_dim: int) -> tuple[bytes, float]:
    """Key and scale of one token of a page in the shuffled layout (aiter's Preshuffle), by walking over the page as it lies.

    A page is a row of tiles of 256 bytes: head_dim / 16 tiles hold dims 0..15, 16..31, ... of the first 16 tokens, then as many those
    of the next 16. In a tile the 16 bytes of the first token come first. Scales follow the last tile, four bytes a token.

    Args:
        block: one page.
        token: place in the page.
        block_size: tokens a page, a multiple of 16.
        head_dim: bytes a key, a multiple of 16.

    Returns:
        key: [head_dim] bytes. FP8 codes.  # [head_dim]
        scale: float. Key scale.
    """
    key, at = {}, 0
    for first_token in range(0, block_size, 16):
        for first_dim in range(0, head_dim, 16):
            for nth in range(16):
                for byte in range(16):
                    if first_token + nth == token:
                        key[first_dim + byte] = block[at]
                    at += 1
    (scale,) = struct.unpack("<f", block[at + 4 * token : at + 4 * token + 4])
    return bytes(key[dim] for dim in range(head_dim)), scale


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
