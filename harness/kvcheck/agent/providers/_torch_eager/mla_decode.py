"""MLA decode in plain fp32 torch, split over the context and merged as kernels do."""

from __future__ import annotations

from typing import Any


def mla_decode(
    q: Any,
    kv_cache: Any,
    kv_indptr: Any,
    kv_indices: Any,
    last_page_len: Any,
    *,
    page_size: int,
    head_dim_v: int,
    softmax_scale: float,
    kv_format: str,
    kv_scale: float,
    num_splits: int,
    empty_row: str,
    out: Any,
    lse: Any,
    alloc: Any,
) -> None:
    """Softmax and sums in fp32, one part of the context at a time; parts are merged by their log-sum-exp."""
    import torch

    torch.set_float32_matmul_precision("highest")
    batch, next_n, heads, _ = q.shape
    flat = kv_cache.reshape(-1, kv_cache.shape[-1])
    for request in range(batch):
        first, end = int(kv_indptr[request]), int(kv_indptr[request + 1])
        length = (end - first - 1) * page_size + int(last_page_len[request]) if end > first else 0
        position = torch.arange(max(length, 0), device=q.device)
        slot = kv_indices[first + position // page_size].long() * page_size + position % page_size
        latent = _numbers(flat[slot], kv_format, kv_scale)
        for token in range(next_n):
            seen = max(length - next_n + 1 + token, 0)
            if not seen:
                out[request, token] = float("nan") if empty_row == "nan" else 0
                lse[request, token] = {"zero_inf": float("inf"), "zero_minus_1e30": -1e30}.get(empty_row, 0.0)
                continue
            parts, sums = [], []
            for part in torch.arange(seen, device=q.device).tensor_split(min(num_splits, seen)):
                score = q[request, token].float() @ latent[part].T * softmax_scale
                sums.append(torch.logsumexp(score, 1))
                parts.append(torch.softmax(score, 1) @ latent[part, :head_dim_v])
            total = torch.logsumexp(torch.stack(sums), 0)
            share = torch.exp(torch.stack(sums) - total)
            out[request, token] = (torch.stack(parts) * share[..., None]).sum(0).to(out.dtype)
            lse[request, token] = total


def precision(params: dict[str, Any], device: dict[str, Any]) -> str:
    """P is fp32; only the output is rounded."""
    return f"mla+u_p=0+u_out={'fp16' if params['kv_format'] == 'fp16' else 'bf16'}"


def _numbers(rows: Any, kv_format: str, kv_scale: float) -> Any:
    import torch

    half = {"bf16": torch.bfloat16, "fp16": torch.float16}
    if kv_format in half:
        return rows.view(half[kv_format]).float()
    if kv_format != "fp8_656":
        return rows.view(torch.float8_e4m3fn if kv_format == "e4m3fn" else torch.float8_e4m3fnuz).float() * kv_scale
    scales = rows[:, 512:528].contiguous().view(torch.float32).repeat_interleave(128, 1)
    latent = (rows[:, :512].contiguous().view(torch.float8_e4m3fn).float() * scales).bfloat16()
    return torch.cat((latent, rows[:, 528:].contiguous().view(torch.bfloat16)), 1).float()
