"""Softmax, reductions and scans: values that travel between lanes and waves."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr):
    r, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + r * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + r * n + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def reduce(x, y, OP: tl.constexpr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    v = tl.load(x + tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :])
    if OP == "sum":
        r = tl.sum(v, AXIS)
    elif OP == "max":
        r = tl.max(v, AXIS)
    elif OP == "min":
        r = tl.min(v, AXIS)
    elif OP == "argmax":
        r = tl.argmax(v, AXIS)
    elif OP == "argmin":
        r = tl.argmin(v, AXIS)
    elif OP == "xor":
        r = tl.xor_sum(v, AXIS)
    tl.store(y + tl.arange(0, N if AXIS == 0 else M), r)


@triton.jit
def scan(x, y, OP: tl.constexpr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr):
    o = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + o)
    r = tl.cumsum(v, AXIS, reverse=REVERSE) if OP == "sum" else tl.cumprod(v, AXIS, reverse=REVERSE)
    tl.store(y + o, r)


def g(seed):
    return torch.Generator().manual_seed(seed)


def run_softmax(rows, n, warps):
    x = torch.randn(rows, n, generator=g(1)) * 4
    y = torch.zeros_like(x)
    softmax[(rows,)](x, y, n, triton.next_power_of_2(n), num_warps=warps)
    return [("y", y, torch.softmax(x.double(), 1).float(), 1e-6)]


def run_reduce(op, dtype, m, n, axis, warps=4):
    x = (torch.randn(m, n, generator=g(2)) * 50).to(dtype)
    fn = {
        "sum": lambda: x.double().sum(axis),
        "max": lambda: x.amax(axis),
        "min": lambda: x.amin(axis),
        "argmax": lambda: x.argmax(axis),
        "argmin": lambda: x.argmin(axis),
    }
    if op == "xor":
        want = x.movedim(axis, 0)[0].clone()
        for row in x.movedim(axis, 0)[1:]:
            want ^= row
    else:
        want = fn[op]()
    out = torch.int32 if op.startswith("arg") else torch.int32 if dtype in (torch.int8, torch.int16) and op == "sum" else dtype
    y = torch.zeros(want.shape, dtype=out)
    reduce[(1,)](x, y, op, m, n, axis, num_warps=warps)
    return [("y", y, want.to(out), 1e-4 if op == "sum" and dtype.is_floating_point else 0.0)]


def run_scan(op, dtype, m, n, axis, reverse, warps=4):
    x = torch.randint(-9, 9, (m, n), generator=g(3)).to(dtype) if op == "sum" else (1 + torch.randn(m, n, generator=g(3)) * 0.01).to(dtype)
    f = torch.cumsum if op == "sum" else torch.cumprod
    want = f(x.flip(axis).double(), axis).flip(axis) if reverse else f(x.double(), axis)
    y = torch.zeros_like(x)
    scan[(1,)](x, y, op, m, n, axis, reverse, num_warps=warps)
    return [("y", y, want.to(dtype), 1e-5 if dtype.is_floating_point else 0)]


def cases(arch):
    f32, i32, i64 = torch.float32, torch.int32, torch.int64
    for rows, n, warps in ((3, 200, 1), (4, 1000, 4), (2, 4096, 8), (5, 33, 2)):
        yield f"softmax_{n}_{warps}w", lambda r=rows, n=n, w=warps: run_softmax(r, n, w)
    for op in ("sum", "max", "min", "argmax", "argmin"):
        for axis in (0, 1):
            yield f"reduce_{op}_f32_{axis}", lambda op=op, axis=axis: run_reduce(op, f32, 32, 64, axis)
    yield "reduce_xor_i32", lambda: run_reduce("xor", i32, 16, 128, 1)
    yield "reduce_sum_i64", lambda: run_reduce("sum", i64, 16, 128, 1)
    yield "reduce_sum_i8", lambda: run_reduce("sum", torch.int8, 16, 128, 1)
    yield "reduce_max_f16", lambda: run_reduce("max", torch.float16, 16, 128, 1, 1)
    yield "reduce_sum_f64", lambda: run_reduce("sum", torch.float64, 8, 64, 1, 2)
    yield "reduce_max_bf16", lambda: run_reduce("max", torch.bfloat16, 16, 128, 0, 8)
    for axis, rev, warps in ((0, False, 4), (1, False, 4), (1, True, 1), (0, True, 2)):
        yield f"cumsum_i32_{axis}_{rev}", lambda a=axis, r=rev, w=warps: run_scan("sum", i32, 16, 64, a, r, w)
    yield "cumsum_f32_long", lambda: run_scan("sum", f32, 1, 2048, 1, False)
    yield "cumprod_f32", lambda: run_scan("prod", f32, 4, 128, 1, False)
    yield "cumsum_i64", lambda: run_scan("sum", i64, 4, 128, 1, False)
