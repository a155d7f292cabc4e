"""The three division instructions by AMD's published rules, in rational arithmetic; and whole divisions, which must be rounded once."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from . import asm, exact, opcodes

FIELDS = {"f32": (23, 255), "f64": (52, 2047)}
RULES = {"f32": (96, 64, 24), "f64": (768, 128, 53)}
NUMBERS = {
    "f32": np.array([0, 1, -3, 7e-41, 1e-45, 1.2e-38, 3e38, -2e38, 1e30, 1e-30, 1e-35, 5e-39, np.inf, np.nan], np.float32),
    "f64": np.array([0, 1, -3, 7e-315, 5e-324, 2.3e-308, 1.7e308, -9e307, 1e250, 1e-250, 1e-300, 3e-310, np.inf, np.nan]),
}


def field(x, kind):
    """Exponent bits."""
    shift, top = FIELDS[kind]
    return int(x.view(f"u{x.itemsize}")) >> shift & top


def scaled(value, den, num, kind):
    """What v_div_scale gives for one lane, and its flag."""
    far, power, tiny = RULES[kind]
    de, ne = field(den, kind), field(num, kind)
    same = value.tobytes() == den.tobytes()
    if ne - de >= far:
        shift, post = (power if same else 0), True
    elif de == 0:
        shift, post = power, False
    elif de >= FIELDS[kind][1] - 2:
        post = ne - de <= -far
        shift = 0 if post and not same else -power
    elif ne - de <= -far:
        shift, post = (0 if same else power), True
    else:
        shift, post = (power if ne <= tiny else 0), False
    if num == 0 or den == 0:
        return math.nan, post
    if not math.isfinite(value) or value == 0:
        return float(value), post
    return exact.nearest(Fraction(float(value)) * Fraction(2) ** shift, kind), post


@pytest.mark.parametrize("mnemonic", ["v_div_scale_f32", "v_div_scale_f64"])
@pytest.mark.parametrize("first", ["denominator", "numerator"])
def test_scale(mnemonic, first):
    kind = mnemonic[-3:]
    den, num = opcodes.columns([kind] * 2, NUMBERS)
    a, b, c = (opcodes.register(i, kind) for i in (10, 14, 40))
    line = f"{mnemonic} {c}, s[2:3], {a if first == 'denominator' else b}, {a}, {b}"
    opcodes.assemble(line, "gfx942")
    for execute in (opcodes.ALL, opcodes.SOME):
        vectors = {10 + k: w for k, w in enumerate(opcodes.words(opcodes.place(den, execute)))}
        vectors |= {14 + k: w for k, w in enumerate(opcodes.words(opcodes.place(num, execute)))}
        g = asm.run(line, vectors | {40: opcodes.OLD}, execute=execute, waves=len(vectors[10]))
        lanes = opcodes.active(execute)
        got, flags = opcodes.read(g, 40, kind)[:, lanes].reshape(-1), g.mask(2)[:, lanes].reshape(-1)
        for k, (d, n) in enumerate(zip(den, num, strict=True)):
            want, post = scaled(d if first == "denominator" else n, d, n, kind)
            assert got[k] == want or (math.isnan(got[k]) and math.isnan(want)), (d, n, got[k], want)
            assert bool(flags[k]) == post, (d, n)
        off = np.setdiff1d(np.arange(64), lanes)
        assert (g.V[40][:, off] == opcodes.OLD).all()
        assert not g.mask(2)[:, off].any()


@pytest.mark.parametrize("mnemonic", ["v_div_fmas_f32", "v_div_fmas_f64"])
@pytest.mark.parametrize("marked", [False, True])
def test_fmas(mnemonic, marked):
    kind = mnemonic[-3:]
    power, bias = RULES[kind][1], FIELDS[kind][1] // 2

    def formula(a, b, c):
        rows = zip(a, b, c, strict=True)
        shift = lambda z: 0 if not marked else power if field(z, kind) > bias else -power  # noqa: E731
        return np.array([exact.fma(float(x), float(y), float(z), kind, shift(z)) for x, y, z in rows], exact.TYPES[kind])

    value = "-1" if marked else "0"
    line = f"s_mov_b64 vcc, {value}\n{mnemonic} {{d}}, {{a}}, {{b}}, {{c}}"
    numbers = {kind: np.delete(NUMBERS[kind], [4, 5, 8])}
    opcodes.check(line, kind, f"{kind} {kind} {kind}", formula, edges=numbers)


def fixed(kind):
    """The rules of v_div_fixup for a lane."""
    lowest = {"f32": -150, "f64": -1075}.get(kind)

    def one(q, d, n):
        sign = math.copysign(1, d) * math.copysign(1, n)
        if math.isnan(n) or math.isnan(d) or (d == 0 and n == 0) or (math.isinf(d) and math.isinf(n)):
            return math.nan
        if d == 0 or math.isinf(n):
            return sign * math.inf
        if math.isinf(d) or n == 0:
            return sign * 0.0
        if lowest and field(n, kind) - field(d, kind) < lowest:
            return sign * 0.0
        if lowest and not math.isfinite(q):
            return sign * math.inf
        return math.copysign(q, sign)

    return lambda q, d, n: np.array([one(*row) for row in zip(q, d, n, strict=True)], exact.TYPES[kind])


@pytest.mark.parametrize("mnemonic", ["v_div_fixup_f32", "v_div_fixup_f64", "v_div_fixup_f16"])
def test_fixup(mnemonic):
    kind = mnemonic[-3:]
    line = f"{mnemonic} {{d}}, {{a}}, {{b}}, {{c}}"
    opcodes.check(line, kind, f"{kind} {kind} {kind}", fixed(kind), upper="old", edges=NUMBERS | {"f16": opcodes.EDGES["f16"][:14]})


SEQUENCE = """v_div_scale_{k} {t0}, s[2:3], {b}, {b}, {a}
v_div_scale_{k} {t1}, vcc, {a}, {b}, {a}
v_rcp_{k}_e32 {r}, {t0}
v_fma_{k} {e}, -{t0}, {r}, 1.0
v_fma_{k} {r}, {e}, {r}, {r}
v_fma_{k} {e}, -{t0}, {r}, 1.0
v_fma_{k} {r}, {e}, {r}, {r}
v_mul_{k}{e64} {q}, {t1}, {r}
v_fma_{k} {e}, -{t0}, {q}, {t1}
v_div_fmas_{k} {q}, {e}, {r}, {q}
v_div_fixup_{k} {d}, {q}, {b}, {a}"""


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_whole_divisions_are_rounded_once(kind):
    rng = np.random.default_rng(2)
    span = 37 if kind == "f32" else 300
    a, b = ((rng.standard_normal(640) * 10.0 ** rng.integers(-span, span, 640)).astype(exact.TYPES[kind]) for _ in range(2))
    edge = opcodes.columns([kind] * 2, NUMBERS)
    names = dict(zip(("t0", "t1", "r", "e", "q"), (opcodes.register(i, kind) for i in (20, 22, 24, 26, 28)), strict=True))
    text = SEQUENCE.format(k=kind, e64="" if kind == "f64" else "_e32", a="{a}", b="{b}", d="{d}", **names)

    def quotient(x, y):
        return x / y

    opcodes.check(text, kind, f"{kind} {kind}", quotient, values=[np.concatenate([p, q]) for p, q in zip((a, b), edge, strict=True)])
