"""Sorts, atomics, gathers, loops, transposes: kernels that move data between lanes and waves."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def sort(x, y, N: tl.constexpr, DESC: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.sort(tl.load(x + i), descending=DESC))


@triton.jit
def flip(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.flip(tl.load(x + i), 0))


@triton.jit
def transpose(x, y, M: tl.constexpr, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    tl.store(y + tl.arange(0, N)[:, None] * M + tl.arange(0, M)[None, :], tl.trans(v))


@triton.jit
def histogram(x, y, N: tl.constexpr, BINS: tl.constexpr):
    tl.store(y + tl.arange(0, BINS), tl.histogram(tl.load(x + tl.arange(0, N)), BINS))


@triton.jit
def gather_rows(x, idx, y, N: tl.constexpr, D: tl.constexpr):
    rows = tl.load(idx + tl.arange(0, N))
    d = tl.arange(0, D)
    tl.store(y + tl.arange(0, N)[:, None] * D + d[None, :], tl.load(x + rows[:, None].to(tl.int64) * D + d[None, :]))


@triton.jit
def gather_op(x, idx, y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(y + i, tl.gather(tl.load(x + i), tl.load(idx + i), 0))


@triton.jit
def atomic(x, idx, y, old, OP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    p, v = y + tl.load(idx + i), tl.load(x + i)
    if OP == "add":
        r = tl.atomic_add(p, v)
    elif OP == "max":
        r = tl.atomic_max(p, v)
    elif OP == "min":
        r = tl.atomic_min(p, v)
    elif OP == "and":
        r = tl.atomic_and(p, v)
    elif OP == "or":
        r = tl.atomic_or(p, v)
    elif OP == "xor":
        r = tl.atomic_xor(p, v)
    tl.store(old + i, r)


@triton.jit
def atomic_noret(x, y, OP: tl.constexpr, BLOCK: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + i % BINS, tl.load(x + i))


@triton.jit
def ticket(counter, order, lock, y):
    t = tl.atomic_add(counter, 1)
    tl.store(order + tl.program_id(0), t)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(y, tl.load(y) * 2 + 1)
    tl.atomic_xchg(lock, 0)


@triton.jit
def loop(x, y, n, K, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, K):
        acc += tl.load(x + k * n + i, mask=i < n, other=0.0)
    tl.store(y + i, acc, mask=i < n)


@triton.jit
def collatz(x, y, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    v = tl.load(x + p)
    steps = 0
    while v != 1:
        v = tl.where(v % 2 == 0, v // 2, 3 * v + 1)
        steps += 1
    tl.store(y + p, steps)


@triton.jit
def layernorm(x, w, b, y, n, BLOCK: tl.constexpr):
    r, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + r * n + i, mask=i < n, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / n
    c = tl.where(i < n, v - mean, 0.0)
    s = 1 / tl.sqrt(tl.sum(c * c, 0) / n + 1e-5)
    tl.store(y + r * n + i, c * s * tl.load(w + i, mask=i < n) + tl.load(b + i, mask=i < n), mask=i < n)


@triton.jit
def grid3(y, X, Y):
    a, b, c = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    tl.store(y + (c * Y + b) * X + a, a + 10 * b + 100 * c + 1000 * tl.num_programs(1))


@triton.jit
def join_split(x, y, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    j = tl.reshape(tl.join(v, v * 2), (2 * N,))
    tl.store(y + tl.arange(0, 2 * N), j)


@triton.jit
def rand(y, seed, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.rand(seed, i))


@triton.jit
def topk(x, y, N: tl.constexpr, K: tl.constexpr):
    tl.store(y + tl.arange(0, K), tl.topk(tl.load(x + tl.arange(0, N)), K))


def g(seed):
    return torch.Generator().manual_seed(seed)


def run_sort(n, desc, dtype, warps=4):
    x = torch.randperm(n, generator=g(4)).to(dtype) - 10
    y = torch.zeros_like(x)
    sort[(1,)](x, y, n, desc, num_warps=warps)
    return [("y", y, x.sort(descending=desc).values, 0)]


def run_atomic(op, dtype):
    n, bins = 512, 37
    x = torch.randint(1, 100, (n,), generator=g(5)).to(dtype)
    idx = torch.randint(0, bins, (n,), generator=g(6), dtype=torch.int32)
    start = torch.full((bins,), 50).to(dtype)
    y, old = start.clone(), torch.zeros_like(x)
    atomic[(4,)](x, idx, y, old, op, 128)
    want, seen = start.clone(), {}
    f = {"add": lambda a, b: a + b, "max": max, "min": min, "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b}[
        op
    ]
    for i in range(n):
        k = int(idx[i])
        want[k] = f(want[k].item(), x[i].item())
        seen.setdefault(k, []).append(i)
    checks = [("y", y, want, 0)]
    if op == "add":  # the old values of a bin are the partial sums, in whichever order the lanes came: the bin's smallest is its start
        checks.append(("old", torch.stack([old[v].min() for v in seen.values()]), torch.full((len(seen),), 50).to(dtype), 0))
    return checks


def run_atomic_noret(dtype):
    x = torch.randint(1, 10, (1024,), generator=g(5)).to(dtype)  # sums stay exact in bfloat16
    y = torch.zeros(64, dtype=dtype)
    atomic_noret[(8,)](x, y, "add", 128, 64)
    return [("y", y, x.reshape(-1, 64).double().sum(0).to(dtype), 0)]


def run_ticket():
    counter, order, lock, y = (torch.zeros(k, dtype=torch.int32) for k in (1, 6, 1, 1))
    ticket[(6,)](counter, order, lock, y, num_warps=1)
    return [
        ("counter", counter, torch.tensor([6], dtype=torch.int32), 0),
        ("order", order.sort().values, torch.arange(6, dtype=torch.int32), 0),
        ("y", y, torch.tensor([63], dtype=torch.int32), 0),
        ("lock", lock, torch.zeros(1, dtype=torch.int32), 0),
    ]


def run_simple(kernel, grid, x, y, want, *args, tol=0.0, **kwargs):
    kernel[grid](*x, y, *args, **kwargs)
    return [("y", y, want, tol)]


def run_collatz():
    x = torch.tensor([1, 7, 27, 97, 6, 871, 2, 3], dtype=torch.int32)
    want = []
    for v in x.tolist():
        steps = 0
        while v != 1:
            v = v // 2 if v % 2 == 0 else 3 * v + 1
            steps += 1
        want.append(steps)
    return run_simple(collatz, (8,), [x], torch.zeros(8, dtype=torch.int32), torch.tensor(want, dtype=torch.int32), 1)


def run_layernorm():
    x, w, b = torch.randn(5, 300, generator=g(7)), torch.randn(300, generator=g(8)), torch.randn(300, generator=g(9))
    return run_simple(layernorm, (5,), [x, w, b], torch.zeros_like(x), torch.nn.functional.layer_norm(x, (300,), w, b), 300, 512, tol=1e-5)


def cases(arch):
    f32, i32, i64 = torch.float32, torch.int32, torch.int64
    yield "sort_f32_256", lambda: run_sort(256, False, f32)
    yield "sort_i32_desc_64", lambda: run_sort(64, True, i32, 1)
    yield "sort_i64_128", lambda: run_sort(128, False, i64)
    for op in ("add", "max", "min", "and", "or", "xor"):
        yield f"atomic_{op}_i32", lambda op=op: run_atomic(op, i32)
    yield "atomic_add_f32", lambda: run_atomic("add", f32)
    yield "atomic_max_f32", lambda: run_atomic("max", f32)
    yield "atomic_add_i64", lambda: run_atomic("add", i64)
    yield "atomic_add_f16", lambda: run_atomic_noret(torch.float16)
    yield "atomic_add_bf16", lambda: run_atomic_noret(torch.bfloat16)
    yield "atomic_add_f64", lambda: run_atomic_noret(torch.float64)
    yield "ticket_lock", run_ticket
    x = torch.randn(128, generator=g(10))
    yield "flip", lambda: run_simple(flip, (1,), [x], torch.zeros_like(x), x.flip(0), 128)
    for dt in (torch.float32, torch.float16, torch.int8, torch.int64):
        m = torch.randint(-100, 100, (64, 32), generator=g(11)).to(dt)
        yield (
            f"transpose_{dt}".replace("torch.", ""),
            lambda m=m: run_simple(transpose, (1,), [m], torch.zeros(32, 64, dtype=m.dtype), m.T.contiguous(), 64, 32),
        )
    h = torch.randint(0, 32, (512,), generator=g(12), dtype=i32)
    yield (
        "histogram",
        lambda: run_simple(histogram, (1,), [h], torch.zeros(32, dtype=i32), torch.bincount(h, minlength=32).to(i32), 512, 32),
    )
    t, idx = torch.randn(50, 64, generator=g(13)), torch.randint(0, 50, (32,), generator=g(14), dtype=i32)
    yield "gather_rows", lambda: run_simple(gather_rows, (1,), [t, idx], torch.zeros(32, 64), t[idx.long()], 32, 64)
    gi = torch.randint(0, 128, (128,), generator=g(15), dtype=i32)
    yield "gather_op", lambda: run_simple(gather_op, (1,), [x, gi], torch.zeros(128), x[gi.long()], 128)
    lx = torch.randn(17, 300, generator=g(16))
    yield "loop_sum", lambda: run_simple(loop, (2,), [lx], torch.zeros(300), lx.double().sum(0).float(), 300, 17, 256, tol=1e-5)
    yield "collatz", run_collatz
    yield "layernorm", run_layernorm
    gw = torch.tensor([[[a + 10 * b + 100 * c + 3000 for a in range(4)] for b in range(3)] for c in range(2)], dtype=i32)
    yield "grid3", lambda: run_simple(grid3, (4, 3, 2), [], torch.zeros(2, 3, 4, dtype=i32), gw, 4, 3)
    yield "join", lambda: run_simple(join_split, (1,), [x], torch.zeros(256), torch.stack([x, 2 * x], 1).reshape(-1), 128)
    yield "topk", lambda: run_simple(topk, (1,), [x], torch.zeros(16), x.topk(16).values, 128, 16)
