"""Element-wise kernels: casts, integers, min/max with NaN, transcendental functions, select."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.hip import libdevice as hip_libdevice


@triton.jit
def cast(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n).to(y.dtype.element_ty), mask=i < n)


@triton.jit
def unary(x, y, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    if OP == "exp":
        r = tl.exp(v)
    elif OP == "exp2":
        r = tl.exp2(v)
    elif OP == "log":
        r = tl.log(v)
    elif OP == "log2":
        r = tl.log2(v)
    elif OP == "sin":
        r = tl.sin(v)
    elif OP == "cos":
        r = tl.cos(v)
    elif OP == "erf":
        r = tl.erf(v)
    elif OP == "sqrt":
        r = tl.sqrt(v)
    elif OP == "sqrt_rn":
        r = tl.sqrt_rn(v)
    elif OP == "rsqrt":
        r = tl.rsqrt(v)
    elif OP == "floor":
        r = tl.floor(v)
    elif OP == "ceil":
        r = tl.ceil(v)
    elif OP == "abs":
        r = tl.abs(v)
    elif OP == "sigmoid":
        r = tl.sigmoid(v)
    elif OP == "tanh":
        r = libdevice.tanh(v)
    elif OP == "rint":
        r = libdevice.rint(v)
    elif OP == "trunc":
        r = libdevice.trunc(v)
    elif OP == "pow":
        r = libdevice.pow(v, 2.5)
    elif OP == "neg":
        r = -v
    elif OP == "not":
        r = ~v
    elif OP == "relu":
        r = tl.maximum(v, 0.0)
    elif OP == "clamp":
        r = tl.clamp(v, -1.0, 1.0)
    tl.store(y + i, r, mask=i < n)


@triton.jit
def binary(a, b, y, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    p = tl.load(a + i, mask=i < n)
    q = tl.load(b + i, mask=i < n, other=1)
    if OP == "add":
        r = p + q
    elif OP == "sub":
        r = p - q
    elif OP == "mul":
        r = p * q
    elif OP == "div":
        r = p / q
    elif OP == "div_rn":
        r = tl.div_rn(p, q)
    elif OP == "fdiv":
        r = tl.fdiv(p, q)
    elif OP == "floordiv":
        r = p // q
    elif OP == "mod":
        r = p % q
    elif OP == "and":
        r = p & q
    elif OP == "or":
        r = p | q
    elif OP == "xor":
        r = p ^ q
    elif OP == "shl":
        r = p << (q & 7)
    elif OP == "shr":
        r = p >> (q & 7)
    elif OP == "min":
        r = tl.minimum(p, q)
    elif OP == "max":
        r = tl.maximum(p, q)
    elif OP == "min_nan":
        r = tl.minimum(p, q, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "max_nan":
        r = tl.maximum(p, q, propagate_nan=tl.PropagateNan.ALL)
    elif OP == "umulhi":
        r = tl.umulhi(p, q)
    elif OP == "lt":
        r = (p < q).to(tl.int32)
    elif OP == "where":
        r = tl.where(p > q, p, -q)
    elif OP == "fma":
        r = tl.fma(p, q, p)
    tl.store(y + i, r, mask=i < n)


def edge_floats(n: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Zeros of both signs, infinities, NaN, denormals, ties, large and small, then random ones."""
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, float("inf"), float("-inf"), float("nan"), 1e-40, -1e-45, 3.4e38, 65504.0, 65520.0, 448.0]
    edges += [
        449.0,
        464.0,
        465.0,
        240.0,
        248.0,
        247.9,
        2.0**-9,
        2.0**-10,
        1.5 * 2.0**-10,
        57344.0,
        61440.0,
        2.0**-24,
        1e-8,
        3.14159,
        123456.789,
    ]
    head = torch.tensor(edges)
    return torch.cat([head, torch.randn(n - len(edges), generator=torch.Generator().manual_seed(1)) * 8]).to(dtype)


def run_unary(op, x, want, tol=0.0, warps=4):
    y = torch.zeros_like(want)
    unary[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), op, 256, num_warps=warps)
    return [("y", y, want, tol)]


def run_binary(op, a, b, want, tol=0.0):
    y = torch.zeros_like(want)
    binary[(triton.cdiv(a.numel(), 256),)](a, b, y, a.numel(), op, 256)
    return [("y", y, want, tol)]


def run_cast(src, dst, saturate=None):
    x = edge_floats(1000, torch.float32)
    if saturate:
        x = x.clamp(-saturate, saturate).nan_to_num(0.0)
    x = x.to(src)
    want = x.to(torch.float32).to(dst) if dst.is_floating_point else x.float().nan_to_num(0, 0, 0).clamp(-1000, 1000).to(dst)
    if not dst.is_floating_point:
        x = x.float().nan_to_num(0, 0, 0).clamp(-1000, 1000).to(src)
        want = x.float().to(dst)
    y = torch.zeros(1000, dtype=dst)
    cast[(4,)](x, y, 1000, 256)
    return [("y", y, want, 0.0)]


def ints(dtype, n=1000, seed=2):
    info = torch.iinfo(dtype)
    g = torch.Generator().manual_seed(seed)
    x = torch.randint(info.min, info.max, (n,), generator=g, dtype=torch.int64).to(dtype)
    x[:6] = torch.tensor([info.min, info.max, 0, 1, 7, info.max - 1], dtype=torch.int64).to(dtype)
    return x


def cases(arch):
    f32, f16, bf16 = torch.float32, torch.float16, torch.bfloat16
    e4 = torch.float8_e4m3fnuz if arch == "gfx942" else torch.float8_e4m3fn
    e5 = torch.float8_e5m2fnuz if arch == "gfx942" else torch.float8_e5m2
    for src, dst in (
        (f32, f16),
        (f16, f32),
        (f32, bf16),
        (bf16, f32),
        (f16, bf16),
        (f32, torch.int32),
        (torch.int32, f32),
        (f32, torch.int8),
        (torch.int8, f16),
        (torch.int64, f32),
        (f32, torch.int64),
        (f16, torch.int16),
        (torch.uint8, f32),
    ):
        yield f"cast_{src}_{dst}".replace("torch.", ""), lambda src=src, dst=dst: run_cast(src, dst)
    for fp8, top in dict.fromkeys(((e4, 240.0), (e5, 57344.0), (torch.float8_e5m2, 57344.0))):
        for other in (f32, f16, bf16):
            yield f"cast_{other}_{fp8}".replace("torch.", ""), lambda a=other, b=fp8, t=top: run_cast(a, b, t)
            yield f"cast_{fp8}_{other}".replace("torch.", ""), lambda a=fp8, b=other, t=top: run_cast(a, b, t)
    x = edge_floats(1000)
    small = torch.randn(1000, generator=torch.Generator().manual_seed(3)) * 3
    pos = small.abs() + 1e-3
    for op, arg, fn, tol in (
        ("exp", small, torch.exp, 2e-6),
        ("exp2", small, torch.exp2, 2e-6),
        ("log", pos, torch.log, 2e-6),
        ("log2", pos, torch.log2, 2e-6),
        ("sin", small * 30, torch.sin, 1e-5),
        ("cos", small * 30, torch.cos, 1e-5),
        ("erf", small, torch.erf, 1e-5),
        ("sqrt", pos, torch.sqrt, 1e-6),
        ("sqrt_rn", x.abs(), lambda v: v.double().sqrt().float(), 0.0),
        ("rsqrt", pos, torch.rsqrt, 1e-6),
        ("floor", x, torch.floor, 0.0),
        ("ceil", x, torch.ceil, 0.0),
        ("abs", x, torch.abs, 0.0),
        ("sigmoid", small, torch.sigmoid, 2e-6),
        ("tanh", small, torch.tanh, 1e-5),
        *([("rint", x, torch.round, 0.0)] if hasattr(hip_libdevice, "rint") else []),  # since Triton 3.7
        ("trunc", x, torch.trunc, 0.0),
        ("pow", pos, lambda v: v**2.5, 1e-5),
        ("clamp", small, lambda v: v.clamp(-1, 1), 0.0),
        ("neg", x, torch.neg, 0.0),
        ("relu", x, lambda v: torch.where(v.isnan(), 0.0, v.clamp(min=0.0)), 0.0),
    ):
        yield f"unary_{op}_f32", lambda op=op, arg=arg, fn=fn, tol=tol: run_unary(op, arg, fn(arg), tol)
    yield "unary_exp_f64", lambda: run_unary("exp", small.double(), small.double().exp(), 1e-12)
    yield "unary_abs_f16", lambda: run_unary("abs", x.half(), x.half().abs())
    yield "unary_neg_bf16", lambda: run_unary("neg", x.bfloat16(), -x.bfloat16())
    for dt in (torch.int8, torch.int16, torch.int32, torch.int64):
        yield f"unary_not_{dt}".replace("torch.", ""), lambda dt=dt: run_unary("not", ints(dt), ~ints(dt))
    y = x.flip(0)
    lo = torch.where(x.isnan(), y, torch.where(y.isnan(), x, torch.minimum(x, y)))
    hi = torch.where(x.isnan(), y, torch.where(y.isnan(), x, torch.maximum(x, y)))
    for op, want in (
        ("add", x + y),
        ("sub", x - y),
        ("mul", x * y),
        ("div_rn", x / y),
        ("min", lo),
        ("max", hi),
        ("min_nan", torch.minimum(x, y)),
        ("max_nan", torch.maximum(x, y)),
        ("where", torch.where(x > y, x, -y)),
    ):
        yield f"binary_{op}_f32", lambda op=op, want=want: run_binary(op, x, y, want)
    yield "binary_fdiv_f32", lambda: run_binary("fdiv", small, pos, small / pos, 1e-6)
    yield "binary_mod_f32", lambda: run_binary("mod", pos, pos.flip(0), torch.fmod(pos, pos.flip(0)), 1e-5)
    yield "binary_fma_f32", lambda: run_binary("fma", small, pos, (small.double() * pos.double() + small.double()).float())
    for dt in (f16, bf16, torch.float64):
        a, b = small.to(dt), pos.to(dt)
        for op, want in (("add", a + b), ("mul", a * b), ("max", torch.maximum(a, b))):
            yield f"binary_{op}_{dt}".replace("torch.", ""), lambda op=op, a=a, b=b, want=want: run_binary(op, a, b, want)
    for dt in (torch.int8, torch.int16, torch.int32, torch.int64):
        a, b = ints(dt), ints(dt, seed=5)
        nz = torch.where(b == 0, torch.ones_like(b), b)
        nz = torch.where(nz == -1, torch.full_like(nz, 3), nz)
        wide = torch.int64
        for op, q, want in (
            ("add", b, a + b),
            ("sub", b, a - b),
            ("mul", b, a * b),
            ("xor", b, a ^ b),
            ("and", b, a & b),
            ("or", b, a | b),
            ("min", b, torch.minimum(a, b)),
            ("max", b, torch.maximum(a, b)),
            ("shl", b, (a.to(wide) << (b.to(wide) & 7)).to(dt)),
            ("shr", b, a >> (b & 7)),
            ("floordiv", nz, torch.div(a, nz, rounding_mode="trunc")),
            ("mod", nz, torch.fmod(a, nz)),
            ("lt", b, (a < b).to(torch.int32)),
        ):
            if dt == torch.int32 or op in ("mul", "floordiv", "max", "shr", "lt", "add"):
                yield f"binary_{op}_{dt}".replace("torch.", ""), lambda op=op, a=a, q=q, want=want: run_binary(op, a, q, want)
