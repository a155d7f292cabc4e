"""Matrix products in every operand type, attention, FP8 quantisation and scaled FP8 products."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, BK: tl.constexpr, PREC: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    acc = tl.zeros((M, N), tl.int32 if a.dtype.element_ty == tl.int8 else tl.float64 if a.dtype.element_ty == tl.float64 else tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        acc = tl.dot(
            tl.load(a + m[:, None] * K + k[None, :]),
            tl.load(b + k[:, None] * N + n[None, :]),
            acc,
            input_precision=PREC,
            out_dtype=acc.dtype,
        )
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def attention(q, k, v, o, T, scale, BLOCK: tl.constexpr, D: tl.constexpr, BT: tl.constexpr):
    m, d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    qv = tl.load(q + m[:, None] * D + d[None, :])
    acc = tl.zeros((BLOCK, D), tl.float32)
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    den = tl.zeros((BLOCK,), tl.float32)
    for t0 in range(0, T, BT):
        t = t0 + tl.arange(0, BT)
        kv = tl.load(k + t[None, :] * D + d[:, None], mask=t[None, :] < T, other=0.0)
        s = tl.dot(qv, kv) * scale
        s = tl.where(t[None, :] < T, s, -float("inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p = tl.exp(s - new[:, None])
        fix = tl.exp(top - new)
        den = den * fix + tl.sum(p, 1)
        vv = tl.load(v + t[:, None] * D + d[None, :], mask=t[:, None] < T, other=0.0)
        acc = acc * fix[:, None] + tl.dot(p.to(vv.dtype), vv)
        top = new
    tl.store(o + m[:, None] * D + d[None, :], acc / den[:, None])


@triton.jit
def quantise(x, y, s, N: tl.constexpr, TOP: tl.constexpr):
    r, i = tl.program_id(0), tl.arange(0, N)
    v = tl.load(x + r * N + i)
    scale = tl.max(tl.abs(v), 0) / TOP
    tl.store(y + r * N + i, (v / scale).to(y.dtype.element_ty))
    tl.store(s + r, scale)


@triton.jit
def dot_scaled(a, sa, b, sb, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, FMT: tl.constexpr, PACK: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    ka = tl.arange(0, K // PACK)
    ks = tl.arange(0, K // 32)
    av = tl.load(a + m[:, None] * (K // PACK) + ka[None, :])
    bv = tl.load(b + ka[:, None] * N + n[None, :])
    r = tl.dot_scaled(
        av, tl.load(sa + m[:, None] * (K // 32) + ks[None, :]), FMT, bv, tl.load(sb + n[:, None] * (K // 32) + ks[None, :]), FMT
    )
    tl.store(c + m[:, None] * N + n[None, :], r)


def g(seed):
    return torch.Generator().manual_seed(seed)


def run_matmul(dt_a, dt_b, m, n, k, bk, warps, tol, prec="ieee", nonkdim=0):
    if dt_a == torch.int8:
        a, b = (torch.randint(-128, 128, s, generator=g(i), dtype=torch.int32).to(dt_a) for i, s in enumerate(((m, k), (k, n))))
        want = (a.double() @ b.double()).to(torch.int32)
    else:
        a, b = torch.randn(m, k, generator=g(1)).to(dt_a), torch.randn(k, n, generator=g(2)).to(dt_b)
        want = a.double() @ b.double()
        want = want if dt_a == torch.float64 else want.float()
    c = torch.zeros(m, n, dtype=want.dtype)
    matmul[(1,)](a, b, c, m, n, k, bk, prec, num_warps=warps, matrix_instr_nonkdim=nonkdim)
    return [("c", c, want, tol)]


def run_attention(dtype, t, warps):
    q, k, v = (torch.randn(s, 64, generator=g(i)).to(dtype) for i, s in ((1, 64), (2, t), (3, t)))
    o = torch.zeros(64, 64)
    attention[(2,)](q, k, v, o, t, 0.125, 32, 64, 64, num_warps=warps)
    return [
        ("o", o, torch.softmax(q.double() @ k.double().T * 0.125, 1).matmul(v.double()).float(), 3e-3 if dtype == torch.float16 else 2e-2)
    ]


def run_quantise(fp8, top):
    x = (torch.rand(4, 256, generator=g(4)) + 0.05) * torch.tensor([1e-3, 1.0, 50.0, 3e4])[:, None]
    y, s = torch.zeros(4, 256, dtype=fp8), torch.zeros(4)
    quantise[(4,)](x, y, s, 256, top)
    scale = x.abs().amax(1) / top
    step = 2.0**-4 if top < 1000 else 2.0**-3  # half a unit in the last place, relative
    return [("s", s, scale, 1e-6), ("y", y.float() / (x / scale[:, None]), torch.ones_like(x), step)]


def run_dot_scaled(fmt, arch):
    m, n, k = 32, 32, 128
    if fmt == "e2m1":
        lut = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
        ca, cb = torch.randint(0, 16, (m, k), generator=g(5)), torch.randint(0, 16, (k, n), generator=g(6))
        av, bv = lut[ca], lut[cb]
        a = (ca[:, 0::2] | ca[:, 1::2] << 4).to(torch.uint8)
        b = (cb[0::2] | cb[1::2] << 4).to(torch.uint8)
    else:
        dt = torch.float8_e4m3fn if fmt == "e4m3" else torch.float8_e5m2
        a, b = torch.randn(m, k, generator=g(5)).to(dt), torch.randn(k, n, generator=g(6)).to(dt)
        av, bv = a.float(), b.float()
    sa = torch.randint(124, 131, (m, k // 32), generator=g(7)).to(torch.uint8)
    sb = torch.randint(124, 131, (n, k // 32), generator=g(8)).to(torch.uint8)
    xa = av.double() * torch.exp2(sa.double() - 127).repeat_interleave(32, 1)
    xb = bv.double() * torch.exp2(sb.double() - 127).repeat_interleave(32, 1).T
    c = torch.zeros(m, n)
    dot_scaled[(1,)](a, sa, b, sb, c, m, n, k, fmt, 2 if fmt == "e2m1" else 1)
    return [("c", c, (xa @ xb).float(), 1e-4)]


def cases(arch):
    f16, bf16, f32 = torch.float16, torch.bfloat16, torch.float32
    e4 = torch.float8_e4m3fnuz if arch == "gfx942" else torch.float8_e4m3fn
    e5 = torch.float8_e5m2fnuz if arch == "gfx942" else torch.float8_e5m2
    for warps in (1, 4):
        for dt, tol in ((f32, 1e-5), (f16, 1e-5), (bf16, 1e-5), (e4, 1e-5), (e5, 1e-5), (torch.int8, 0), (torch.float64, 1e-12)):
            yield f"matmul_{dt}_{warps}w".replace("torch.", ""), lambda dt=dt, w=warps, tol=tol: run_matmul(dt, dt, 32, 32, 128, 64, w, tol)
    for nonk in (16, 32):
        for dt in (f16, bf16, e4, e5, f32):
            yield (
                f"matmul_{dt}_nonk{nonk}".replace("torch.", ""),
                lambda dt=dt, k=nonk: run_matmul(dt, dt, 64, 64, 64, 64, 4, 1e-5, "ieee", k),
            )
    yield "matmul_f16_128_8w", lambda: run_matmul(f16, f16, 128, 128, 64, 32, 8, 1e-5)
    yield "matmul_mixed_fp8", lambda: run_matmul(e4, e5, 32, 32, 128, 64, 4, 1e-5)
    if arch == "gfx942":
        yield "matmul_xf32", lambda: run_matmul(f32, f32, 32, 32, 64, 64, 4, 2e-3, "tf32")
    yield "matmul_bf16x3", lambda: run_matmul(f32, f32, 32, 32, 64, 64, 4, 1e-4, "bf16x3")
    for dt in (f16, bf16):
        yield f"attention_{dt}".replace("torch.", ""), lambda dt=dt: run_attention(dt, 130, 4)
    yield "attention_1w", lambda: run_attention(f16, 64, 1)
    yield "quantise_e4", lambda: run_quantise(e4, 240.0 if arch == "gfx942" else 448.0)
    yield "quantise_e5", lambda: run_quantise(e5, 57344.0)
    for fmt in ("e4m3", "e5m2", "e2m1") if arch == "gfx950" else ():  # Triton 3.7 does not compile dot_scaled for gfx942
        yield f"dot_scaled_{fmt}", lambda fmt=fmt: run_dot_scaled(fmt, arch)
