"""A second reference of `mla_decode`, written independently: one row, one head, one token at a time, bytes read with `struct`.

Slow on purpose; tests hold the fast reference against it. Source: the contract in words; no code is shared with `mla_decode`.
"""

from __future__ import annotations

import math
import struct

import torch


def mla_decode(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    last_page_len: torch.Tensor,
    *,
    page_size: int,
    head_dim_v: int,
    softmax_scale: float,
    kv_format: str,
    kv_scale: float,
    num_splits: int,
    empty_row: str,
    out: object,
    lse: object,
    alloc: object,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over a paged latent cache, one number at a time.

    Args:
        q: [batch, next_n, num_heads, head_dim] bfloat16 or float16. Queries.  # [batch, next_n, num_heads, head_dim]
        kv_cache: [num_pages, page_size, 1, row_bytes] uint8. Latents.  # [num_pages, page_size, 1, row_bytes]
        kv_indptr: [batch + 1] int32. First entries.  # [batch + 1]
        kv_indices: [entries] int32. Page ids.  # [entries]
        last_page_len: [batch] int32. Tokens in the last page.  # [batch]
        page_size: tokens a page.
        head_dim_v: dims of V.
        softmax_scale: factor of the scores.
        kv_format: bf16, fp16, e4m3fn, e4m3fnuz or fp8_656.
        kv_scale: factor of per-tensor FP8 codes.
        num_splits: not used.
        empty_row: zero_inf, zero_minus_1e30, nan or zero.
        out, lse, alloc: not used.

    Returns:
        out: [batch, next_n, num_heads, head_dim_v] float64. Weighted sums.  # [batch, next_n, num_heads, head_dim_v]
        lse: [batch, next_n, num_heads] float64. Natural logarithm.  # [batch, next_n, num_heads]
    """
    batch, next_n, num_heads, head_dim = q.shape
    queries, pages = q.double().tolist(), kv_cache.tolist()
    first, ids, last = kv_indptr.tolist(), kv_indices.tolist(), last_page_len.tolist()
    values, sums = [], []
    for request in range(batch):
        row = []
        for nth in range(first[request], first[request + 1]):
            filled = page_size if nth < first[request + 1] - 1 else last[request]
            row += [token(bytes(pages[ids[nth]][offset][0]), kv_format, kv_scale) for offset in range(filled)]
        for query_token in range(next_n):
            hidden = next_n - 1 - query_token
            seen = row[: max(len(row) - hidden, 0)]
            for head in range(num_heads):
                attended, total = _attend(queries[request][query_token][head], seen, head_dim, head_dim_v, softmax_scale, empty_row)
                values.append(attended)
                sums.append(total)
    shape = (batch, next_n, num_heads)
    return torch.tensor(values, dtype=torch.float64).view(*shape, head_dim_v), torch.tensor(sums, dtype=torch.float64).view(shape)


def _attend(query: list, seen: list, head_dim: int, head_dim_v: int, softmax_scale: float, empty_row: str) -> tuple[list, float]:
    if not seen:
        filler = math.nan if empty_row == "nan" else 0.0
        marks = {"zero_inf": math.inf, "zero_minus_1e30": struct.unpack("f", struct.pack("f", -1e30))[0], "nan": math.nan, "zero": 0.0}
        return [filler] * head_dim_v, marks[empty_row]
    scores = [softmax_scale * math.fsum(query[dim] * key[dim] for dim in range(head_dim)) for key in seen]
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    total = math.fsum(weights)
    line = [math.fsum(w * key[dim] for w, key in zip(weights, seen, strict=True)) / total for dim in range(head_dim_v)]
    return line, top + math.log(total)


def token(row: bytes, kv_format: str, kv_scale: float) -> list[float]:
    """The numbers of one slot, from its bytes."""
    if kv_format == "bf16":
        return [struct.unpack("<f", b"\0\0" + row[at : at + 2])[0] for at in range(0, len(row), 2)]
    if kv_format == "fp16":
        return list(struct.unpack(f"<{len(row) // 2}e", row))
    if kv_format != "fp8_656":
        return [_fp8(code, 8 if kv_format == "e4m3fnuz" else 7) * kv_scale for code in row]
    scales = struct.unpack("<4f", row[512:528])
    latent = [_to_bf16(_to_fp32(_fp8(row[dim], 7) * scales[dim // 128])) for dim in range(512)]
    return latent + token(row[528:], "bf16", 1.0)


def _fp8(code: int, bias: int) -> float:
    if code & 127 == 127 and bias == 7 or code == 128 and bias == 8:
        return math.nan
    exponent, fraction = (code >> 3) & 15, code & 7
    size = math.ldexp(fraction, -2 - bias) if exponent == 0 else math.ldexp(8 + fraction, exponent - bias - 3)
    return -size if code > 127 else size


def _to_fp32(number: float) -> float:
    """The nearest fp32; past the largest, infinity."""
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


def _to_bf16(number: float) -> float:
    """The nearest bf16, ties to even: on the upper half of the fp32's bits."""
    if math.isnan(number) or math.isinf(number):
        return number
    (bits,) = struct.unpack("<I", struct.pack("<f", number))
    upper, lower = bits >> 16, bits & 0xFFFF
    if lower > 0x8000 or lower == 0x8000 and upper & 1:
        upper += 1
    return struct.unpack("<f", struct.pack("<I", upper << 16))[0]
