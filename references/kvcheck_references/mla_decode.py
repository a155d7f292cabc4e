"""Reference of `mla_decode`: absorbed MLA over a paged latent cache in float64, vectorised, chunked over positions.

Source: ROCm/aiter@e4048607a5 aiter/mla.py; deepseek-ai/FlashMLA@9241ae3 tests/ref.py and tests/quant.py. Differences: (1) float64
throughout; (2) roundings that the contract prescribes, and only those, are made: the latent of a 656-byte token is bf16;
(3) what an empty row holds is an argument, since kernels differ; (4) lse is the natural logarithm.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

CHUNK = 1 << 14
"""Positions decoded at a time: 75 MB of float64 at 576 dims."""


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
) -> dict[str, torch.Tensor]:
    """Attention of every query token over the cached latents of its request: K is the whole row, V its first head_dim_v dims.

    Args:
        q: [batch, next_n, num_heads, head_dim] bfloat16 or float16. Queries.  # [batch, next_n, num_heads, head_dim]
        kv_cache: [num_pages, page_size, 1, row_bytes] uint8. Latents.  # [num_pages, page_size, 1, row_bytes]
        kv_indptr: [batch + 1] int32. Where each request's pages begin in kv_indices.  # [batch + 1]
        kv_indices: [entries] int32. Page ids; entries that no request owns are not read.  # [entries]
        last_page_len: [batch] int32. Tokens in each request's last page.  # [batch]
        page_size: tokens a page.
        head_dim_v: dims of V.
        softmax_scale: factor of the scores.
        kv_format: bf16, fp16, e4m3fn, e4m3fnuz or fp8_656.
        kv_scale: factor of per-tensor FP8 codes.
        num_splits: not used.
        empty_row: zero_inf, zero_minus_1e30, nan or zero.
        out, lse, alloc: not used.

    Returns:
        out: [batch, next_n, num_heads, head_dim_v] float64. Weighted sums of V.  # [batch, next_n, num_heads, head_dim_v]
        lse: [batch, next_n, num_heads] float64. Natural logarithm of the sum of exponentials.  # [batch, next_n, num_heads]

    Conventions: a request of L = (pages - 1) * page_size + last_page_len tokens; row j sees the first L - next_n + 1 + j of them.
    """
    batch, next_n, num_heads, _ = q.shape
    values = torch.zeros(batch, next_n, num_heads, head_dim_v, dtype=torch.float64, device=q.device)
    sums = torch.zeros(batch, next_n, num_heads, dtype=torch.float64, device=q.device)
    args = (q, kv_cache, kv_indptr, kv_indices, last_page_len)
    for b, limits, score, tokens in requests(
        *args, page_size=page_size, softmax_scale=softmax_scale, kv_format=kv_format, kv_scale=kv_scale
    ):
        weight, total, top = weights(score)
        sums[b] = top + torch.log(total)
        for start, rows in tokens():
            values[b] += weight[..., start : start + len(rows)] @ rows[:, :head_dim_v]
        values[b] /= total[..., None]
        for j, limit in enumerate(limits):
            if not limit:
                values[b, j], sums[b, j] = empty(empty_row)
    return {"out": values, "lse": sums}


def requests(
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    last_page_len: torch.Tensor,
    *,
    page_size: int,
    softmax_scale: float,
    kv_format: str,
    kv_scale: float,
) -> Iterator[tuple]:
    """What the attention is computed from, request by request; an error bound is computed from the same.

    Args:
        q, kv_cache, kv_indptr, kv_indices, last_page_len, page_size, softmax_scale, kv_format, kv_scale: as of `mla_decode`.

    Yields:
        b, limits: request, and how many positions each of its rows sees.
        score: [next_n, num_heads, positions] float64. -inf past a row's positions.  # [next_n, num_heads, positions]
        tokens: function that yields (first position, [positions, head_dim] float64) again, chunk by chunk.
    """
    next_n = q.shape[1]
    flat = kv_cache.reshape(-1, kv_cache.shape[-1])  # [num_pages * page_size, row_bytes]
    for b, length in enumerate(lengths(kv_indptr, last_page_len, page_size)):
        limits = [max(length - next_n + 1 + j, 0) for j in range(next_n)]
        position = torch.arange(max(length, 0), device=q.device)
        slot = kv_indices[int(kv_indptr[b]) + position // page_size].long() * page_size + position % page_size

        def tokens(slot: torch.Tensor = slot) -> Iterator[tuple[int, torch.Tensor]]:
            for start in range(0, len(slot), CHUNK):
                yield start, numbers(flat[slot[start : start + CHUNK]], kv_format, kv_scale)

        parts = [q[b].double() @ rows.T * softmax_scale for _, rows in tokens()]
        score = torch.cat(parts, 2) if parts else q[b].double()[..., :0]
        for j, limit in enumerate(limits):
            score[j, :, limit:] = -torch.inf
        yield b, limits, score, tokens


def weights(score: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Exponentials below the largest score, their sum, and that score; division comes last, so that integers stay exact.

    Args:
        score: [next_n, num_heads, positions] float64.  # [next_n, num_heads, positions]

    Returns:
        weight: [next_n, num_heads, positions] float64.  # [next_n, num_heads, positions]
        total: [next_n, num_heads] float64. 0 where a row sees nothing.  # [next_n, num_heads]
        top: [next_n, num_heads] float64. 0 where a row sees nothing.  # [next_n, num_heads]
    """
    if not score.shape[2]:
        return score, score.sum(2), score.sum(2)
    top = score.amax(2)
    top = torch.where(top == -torch.inf, torch.zeros_like(top), top)
    weight = torch.exp(score - top[..., None])
    return weight, weight.sum(2), top


def lengths(kv_indptr: torch.Tensor, last_page_len: torch.Tensor, page_size: int) -> list[int]:
    """Tokens of each request: [batch]."""
    pages = (kv_indptr[1:] - kv_indptr[:-1]).tolist()
    return [max((count - 1) * page_size + last, 0) if count else 0 for count, last in zip(pages, last_page_len.tolist(), strict=True)]


def numbers(rows: torch.Tensor, kv_format: str, kv_scale: float) -> torch.Tensor:
    """The numbers of some slots: [tokens, head_dim] float64."""
    if kv_format in ("bf16", "fp16"):
        return rows.contiguous().view(torch.bfloat16 if kv_format == "bf16" else torch.float16).double()
    if kv_format in ("e4m3fn", "e4m3fnuz"):
        return rows.contiguous().view(torch.float8_e4m3fn if kv_format == "e4m3fn" else torch.float8_e4m3fnuz).double() * kv_scale
    codes, scales, rope = rows.split((512, 16, 128), 1)
    latent = (
        codes.contiguous().view(torch.float8_e4m3fn).float().unflatten(1, (4, 128)) * scales.contiguous().view(torch.float32)[..., None]
    )
    return torch.cat((latent.flatten(1).to(torch.bfloat16), rope.contiguous().view(torch.bfloat16)), 1).double()


def empty(empty_row: str) -> tuple[float, float]:
    """What a row without a position holds: out, lse. Kernels that say nothing of lse are not held to one."""
    return {
        "zero_inf": (0.0, torch.inf),
        "zero_minus_1e30": (0.0, float(torch.tensor(-1e30))),
        "nan": (torch.nan, torch.nan),
        "zero": (0.0, 0.0),
    }[empty_row]
