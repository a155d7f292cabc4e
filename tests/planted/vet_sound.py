"""A reporter's script that can prove what it says: quantised keys, a shuffled table, k below every length, values and chance stated."""

import torch
from aiter.ops.triton.attention.pa_mqa_logits import deepgemm_fp8_paged_mqa_logits_stage1

HEADS, DIM, K, WIDTH = 32, 128, 64, 1024


def quantised(n):
    keys = torch.randn(n, DIM, device="cuda")
    scales = keys.abs().amax(1, keepdim=True) / 448
    stored = (keys / scales).to(torch.float8_e4m3fn)
    return torch.cat([stored.view(torch.uint8), scales.view(torch.uint8)], dim=1).view(n, 1, 1, DIM + 4)


def expected(q, cache, weights, slots):
    page = cache[slots.long(), 0, 0]
    keys = page[:, :DIM].contiguous().view(q.dtype).double() * page[:, DIM:].contiguous().view(torch.float32).double()
    return (weights[0, :, None].double() * torch.relu(q[0, 0].double() @ keys.T)).sum(0)


for n in (300, 1000):
    torch.manual_seed(3)
    cache, weights = quantised(n + 16), torch.rand(1, HEADS, device="cuda")
    q = torch.randn(1, 1, HEADS, DIM, device="cuda").to(torch.float8_e4m3fn)
    table = torch.randperm(n + 16, device="cuda").int()[None]
    out = torch.full((HEADS, 1, WIDTH), float("-inf"), device="cuda")
    lens = torch.tensor([n], dtype=torch.int32, device="cuda")
    deepgemm_fp8_paged_mqa_logits_stage1(q, cache, weights, out, lens, table, WIDTH, ChunkQ=HEADS)
    logits = out.sum(dim=0)[0]
    wanted = expected(q, cache, weights, table[0, :n])
    assert torch.isneginf(logits[n:]).all(), f"{n}: a logit past the end"
    assert torch.allclose(logits[:n].double(), wanted, rtol=1e-4, atol=1e-5 * wanted.abs().max().item()), f"{n}: a wrong logit"
    ours, theirs = set(logits[:n].topk(K).indices.tolist()), set(wanted.topk(K).indices.tolist())
    overlap, chance = len(ours & theirs) / K, K / n
    print(f"{n} tokens: overlap {overlap:.4f}, by chance {chance:.4f}")
    assert overlap > 0.98, f"{n}: overlap {overlap}"
