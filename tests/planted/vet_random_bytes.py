"""A reporter's script with the faults of vLLM issue 39303's: a cache of random bytes, k = min(512, n), sorted lists entry by entry."""

import torch
from aiter.ops.triton.attention.pa_mqa_logits import deepgemm_fp8_paged_mqa_logits_stage1

HEADS, DIM, K, WIDTH = 32, 128, 512, 4096


def expected(q, cache, weights, n):
    keys = cache[:n, 0, 0, :DIM].contiguous().view(torch.float8_e4m3fn).float()
    scales = cache[:n, 0, 0, DIM:].contiguous().view(torch.float32)
    scores = torch.relu(q[0, 0].float() @ (keys * scales).T)
    logits = torch.full((1, WIDTH), float("-inf"), device="cuda")
    logits[0, :n] = (weights[0, :, None] * scores).sum(0)
    return logits


def chosen(logits, k):
    filled = torch.where(torch.isfinite(logits), logits, torch.full_like(logits, -1e30))
    return torch.topk(filled, k=k, dim=1).indices.sort(dim=1).values


for n in (256, 512, 513, 900, 2000):
    torch.manual_seed(7)
    cache = torch.randint(0, 256, (n + 16, 1, 1, DIM + 4), dtype=torch.uint8, device="cuda")
    q = torch.randn(1, 1, HEADS, DIM, device="cuda").to(torch.float8_e4m3fn)
    weights = torch.randn(1, HEADS, device="cuda")
    lens = torch.tensor([n], dtype=torch.int32, device="cuda")
    table = torch.arange(n + 16, dtype=torch.int32, device="cuda")[None]
    out = torch.full((HEADS, 1, WIDTH), float("-inf"), device="cuda")
    deepgemm_fp8_paged_mqa_logits_stage1(q, cache, weights, out, lens, table, WIDTH)
    k = min(K, n)
    ours, theirs = chosen(out.sum(dim=0), k), chosen(expected(q, cache, weights, n), k)
    print(f"{n} tokens: {(ours == theirs).float().mean().item():.4f} of the selection agrees")
