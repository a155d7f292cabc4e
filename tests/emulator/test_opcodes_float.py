"""Vector float instructions over edge values, against exact rational arithmetic and numpy in a wider type."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from . import asm, exact, opcodes

F16, F32, F64 = np.float16, np.float32, np.float64
SIGNALLING = {
    k: np.concatenate([opcodes.EDGES[k], np.array([bits], f"u{opcodes.EDGES[k].itemsize}").view(opcodes.DTYPE[k])])
    for k, bits in (("f16", 0x7D00), ("f32", 0x7FA00000), ("f64", 0x7FF4000000000000))
}


def wide(fn, dtype):
    """Computed in float64 and rounded once."""
    return lambda *x: fn(*(v.astype(F64) for v in x)).astype(dtype)


def flushed(fn):
    """A float32 function whose denormal sources and results are zeros (the manual: 1 ULP, denormals are flushed)."""

    def cut(x):
        return np.where(np.abs(x) < F32(2.0**-126), np.copysign(F32(0), x), x)

    return lambda x: cut(fn(cut(x).astype(F64)).astype(F32))


def ldexp(kind):
    def one(x, n):
        if not np.isfinite(x) or x == 0:
            return float(x)
        return exact.nearest(Fraction(float(x)) * Fraction(2) ** max(-3000, min(3000, int(n))), kind)

    return lambda x, n: np.array([one(a, b) for a, b in zip(x, n, strict=True)], exact.TYPES[kind])


def fract(x):
    """Below 1; NaN for an infinity, whose floor is itself."""
    below = np.nextafter(x.dtype.type(1), x.dtype.type(0))
    return np.where(x - np.floor(x) >= 1, below, x - np.floor(x))


def turns(fn, points):
    """sin or cos of x turns, exact at multiples of a quarter turn."""

    def one(x):
        if not np.isfinite(x):
            return np.nan
        part = Fraction(float(x)) % 1
        if part % Fraction(1, 4) == 0:
            return np.copysign(0.0, x) if fn is np.sin and part == 0 and x == 0 else points[int(part * 4)]
        return fn(2 * np.pi * float(part if part <= Fraction(1, 2) else part - 1))

    return lambda x: np.array([one(v) for v in x], F32)


UNARY = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rndne": np.rint}
ROWS = {f"v_{n}_{k}": (k, k, f) for n, f in UNARY.items() for k in ("f16", "f32", "f64")}
ROWS |= {f"v_fract_{k}": (k, k, fract) for k in ("f32", "f64")}
for _k, _t in (("f16", F16), ("f32", F32)):
    ROWS |= {
        f"v_add_{_k}": (_k, f"{_k} {_k}", wide(np.add, _t)),
        f"v_sub_{_k}": (_k, f"{_k} {_k}", wide(np.subtract, _t)),
        f"v_subrev_{_k}": (_k, f"{_k} {_k}", wide(lambda x, y: y - x, _t)),
        f"v_mul_{_k}": (_k, f"{_k} {_k}", wide(np.multiply, _t)),
    }
ROWS |= {
    "v_mul_legacy_f32": ("f32", "f32 f32", lambda x, y: np.where((x == 0) | (y == 0), F32(0), x * y)),
    "v_add_f64": ("f64", "f64 f64", np.add),
    "v_mul_f64": ("f64", "f64 f64", np.multiply),
    "v_ldexp_f32": ("f32", "f32 i32", ldexp("f32")),
    "v_ldexp_f64": ("f64", "f64 i32", ldexp("f64")),
    "v_ldexp_f16": ("f16", "f16 i16", ldexp("f16")),
    "v_frexp_mant_f32": ("f32", "f32", lambda x: np.where(np.isfinite(x), np.frexp(x.astype(F64))[0].astype(F32), x)),
    "v_frexp_mant_f64": ("f64", "f64", lambda x: np.where(np.isfinite(x), np.frexp(x)[0], x)),
    "v_frexp_exp_i32_f32": ("i32", "f32", lambda x: np.where(np.isfinite(x), np.frexp(x.astype(F64))[1], 0)),
    "v_frexp_exp_i32_f64": ("i32", "f64", lambda x: np.where(np.isfinite(x), np.frexp(x)[1], 0)),
    "v_cndmask_b32": ("u32", "u32 u32", lambda x, y: x),
}
ROUGH = {  # the card's last bit is not published
    "v_rcp_f32": ("f32", "f32", flushed(lambda x: 1 / x)),
    "v_rcp_iflag_f32": ("f32", "f32", flushed(lambda x: 1 / x)),
    "v_rsq_f32": ("f32", "f32", flushed(lambda x: 1 / np.sqrt(x))),
    "v_sqrt_f32": ("f32", "f32", flushed(np.sqrt)),
    "v_exp_f32": ("f32", "f32", flushed(np.exp2)),
    "v_log_f32": ("f32", "f32", flushed(np.log2)),
    "v_rcp_f16": ("f16", "f16", wide(lambda x: 1 / x, F16)),
    "v_rsq_f16": ("f16", "f16", wide(lambda x: 1 / np.sqrt(x), F16)),
    "v_sqrt_f16": ("f16", "f16", wide(np.sqrt, F16)),
    "v_exp_f16": ("f16", "f16", wide(np.exp2, F16)),
    "v_log_f16": ("f16", "f16", wide(np.log2, F16)),
    "v_rcp_f64": ("f64", "f64", lambda x: 1 / x),
    "v_rsq_f64": ("f64", "f64", lambda x: 1 / np.sqrt(x)),
    "v_sqrt_f64": ("f64", "f64", np.sqrt),
    "v_sin_f32": ("f32", "f32", turns(np.sin, (0.0, 1.0, 0.0, -1.0))),
    "v_cos_f32": ("f32", "f32", turns(np.cos, (1.0, 0.0, -1.0, 0.0))),
}
FUSED = {
    "v_fma_f32": ("f32", "f32 f32 f32", exact.fused("f32")),
    "v_fma_f16": ("f16", "f16 f16 f16", exact.fused("f16")),
    "v_fma_f64": ("f64", "f64 f64 f64", exact.fused("f64")),
}
EXTREME = {f"v_{n}_{k}": (k, f"{k} {k}", f) for n, f in (("max", exact.larger), ("min", exact.smaller)) for k in ("f16", "f32", "f64")}
EXTREME |= {
    f"v_{n}_{k}": (k, f"{k} {k} {k}", f)
    for n, f in (
        ("max3", lambda x, y, z: exact.larger(exact.larger(x, y), z)),
        ("min3", lambda x, y, z: exact.smaller(exact.smaller(x, y), z)),
        ("med3", exact.middle),
    )
    for k in ("f16", "f32")
}
EXTREME |= {
    "v_maximum3_f32": ("f32", "f32 f32 f32", lambda x, y, z: exact.ieee(exact.larger)(exact.ieee(exact.larger)(x, y), z)),
    "v_minimum3_f32": ("f32", "f32 f32 f32", lambda x, y, z: exact.ieee(exact.smaller)(exact.ieee(exact.smaller)(x, y), z)),
}
TABLE = ROWS | ROUGH | FUSED | EXTREME
UPPER = {"v_fma_f16": "old", "v_max3_f16": "any", "v_min3_f16": "any", "v_med3_f16": "any"}


@pytest.mark.parametrize("mnemonic", TABLE)
def test_float(mnemonic):
    result, kinds, formula = TABLE[mnemonic]
    sources = ", ".join("{" + n + "}" for n in "abc"[: len(kinds.split())])
    if mnemonic == "v_cndmask_b32":
        sources += ", vcc"
    opcodes.check(
        f"{mnemonic} {{d}}, {sources}",
        result,
        kinds,
        formula,
        upper=UPPER.get(mnemonic, "zero"),
        edges=opcodes.EDGES | SIGNALLING if mnemonic in EXTREME else None,
        ulp=1 if mnemonic in ROUGH else 0,
    )


ACCUMULATING = {"v_fmac_f32": "f32", "v_fmac_f64": "f64", "v_fmaak_f32": "f32", "v_fmamk_f32": "f32", "v_pk_fma_f32": "f32"}


@pytest.mark.parametrize("mnemonic", ["v_fmac_f32", "v_fmac_f64"])
def test_accumulating(mnemonic):
    kind = ACCUMULATING[mnemonic]
    columns = opcodes.columns([kind] * 3)
    want = exact.fused(kind)(*columns)
    for execute in (opcodes.ALL, opcodes.SOME):
        placed = [opcodes.words(opcodes.place(c, execute)) for c in columns]
        vectors = {10 + 4 * i + k: w for i, ws in enumerate(placed) for k, w in enumerate(ws)}
        line = f"{mnemonic} {opcodes.register(18, kind)}, {opcodes.register(10, kind)}, {opcodes.register(14, kind)}"
        opcodes.assemble(line, "gfx942")
        g = asm.run(line, vectors, execute=execute, waves=len(vectors[10]))
        got = opcodes.read(g, 18, kind)[:, opcodes.active(execute)].reshape(-1)[: len(want)]
        assert not opcodes.different(got, want).any()
        off = np.setdiff1d(np.arange(64), opcodes.active(execute))
        assert (g.V[18][:, off] == placed[2][0][:, off]).all()


@pytest.mark.parametrize("mnemonic", ["v_fmaak_f32", "v_fmamk_f32"])
@pytest.mark.parametrize("literal", [0x40490FDB, 0xFF800000, 0x00000001])
def test_with_a_literal(mnemonic, literal):
    k = np.array([literal], np.uint32).view(F32)
    order = (lambda a, b: (a, b, np.resize(k, a.shape))) if mnemonic == "v_fmaak_f32" else (lambda a, b: (a, np.resize(k, a.shape), b))
    text = f"{{a}}, {{b}}, {hex(literal)}" if mnemonic == "v_fmaak_f32" else f"{{a}}, {hex(literal)}, {{b}}"
    opcodes.check(f"{mnemonic} {{d}}, {text}", "f32", "f32 f32", lambda a, b: exact.fused("f32")(*order(a, b)))
