"""Runs one instruction over edge values, under two EXEC masks, and compares every lane with a formula written in the test.

A row of a table is `mnemonic: (result kind, "source kinds", formula)`. Formulas get numpy arrays and use numpy and Python only: nothing of
the emulator. Every line is also assembled by LLVM for its target, so that no test is about an instruction that does not exist.
"""

from __future__ import annotations

import functools
import itertools
import os
import tempfile

import numpy as np

from . import asm

ALL, SOME = (1 << 64) - 1, 0xF7FF_0FFE_8000_7FFD
DTYPE = {k + b: np.dtype(f"{k}{int(b) // 8}") for k in "uif" for b in ("16", "32", "64")}
OLD = np.uint32(0xA5C3F00D)
"""What a destination holds before."""
_FLOATS = {
    "f16": [0x0000, 0x8000, 0x3C00, 0xBE00, 0x4100, 0x3800, 0x3C01, 0x7BFF, 0xFBFF, 0x0400, 0x03FF, 0x8001, 0x7C00, 0xFC00, 0x7E00, 0x6801],
    "f32": [
        *(0x00000000, 0x80000000, 0x3F800000, 0xBFC00000, 0x40200000, 0x3F000000, 0x3F800001, 0x7F7FFFFF),
        *(0xFF7FFFFF, 0x00800000, 0x007FFFFF, 0x80000001, 0x7F800000, 0xFF800000, 0x7FC00000, 0x4B800001, 0x501502F9),
    ],
    "f64": [
        *(0, 1 << 63, 0x3FF0000000000000, 0xBFF8000000000000, 0x4004000000000000, 0x3FE0000000000000, 0x3FF0000000000001),
        *(0x7FEFFFFFFFFFFFFF, 0x0010000000000000, 0x000FFFFFFFFFFFFF, 0x8000000000000001, 0x7FF0000000000000, 0xFFF0000000000000),
        *(0x7FF8000000000000, 0x4340000000000001, 0x41F0000000000001),
    ],
}


def integers(bits: int) -> list[int]:
    """0, 1, -1, both ends of the signed range, shift counts at and above the width, mixed bits."""
    top = 1 << bits - 1
    return [0, 1, 2, 2 * top - 1, top, top - 1, bits, bits - 1, bits + 3, 0x1234567890ABCDEF & (2 * top - 1), 0x8000FF7F & (2 * top - 1)]


EDGES = {k: np.array(v, f"u{int(k[1:]) // 8}").view(DTYPE[k]) for k, v in _FLOATS.items()}
DTYPE |= {"2f16": np.dtype("u4"), "2bf16": np.dtype("u4"), "2u16": np.dtype("u4"), "2f32": np.dtype("u8")}
"""Two in a register, or in a pair of registers."""
EDGES |= {f"{s}{b}": np.array(integers(b), f"u{b // 8}").view(DTYPE[f"{s}{b}"]) for s in "ui" for b in (16, 32, 64)}


def pairs(values: np.ndarray, kind: str) -> np.ndarray:
    """Edge values of a packed kind: each value below another one."""
    raw = values.view(f"u{values.itemsize}").astype(DTYPE[kind])
    return raw | np.roll(raw, 5) << DTYPE[kind].type(8 * values.itemsize)


EDGES |= {"2f16": pairs(EDGES["f16"], "2f16"), "2u16": pairs(EDGES["u16"], "2u16"), "2f32": pairs(EDGES["f32"], "2f32")}


def halves(packed: np.ndarray, kind: str) -> list[np.ndarray]:
    """Low and high elements of a packed kind (bfloat16 as float32)."""
    if kind == "2bf16":
        return [(packed << np.uint32(16)).view(np.float32), (packed & np.uint32(0xFFFF0000)).view(np.float32)]
    parts = np.ascontiguousarray(packed).view(DTYPE[kind[1:]]).reshape(*packed.shape, 2)
    return [np.ascontiguousarray(parts[..., i]) for i in (0, 1)]


def columns(kinds: list[str], edges: dict | None = None) -> list[np.ndarray]:
    """Every combination of edge values, a column a source."""
    rows = list(itertools.product(*(range(len((edges or EDGES)[k])) for k in kinds)))
    return [(edges or EDGES)[k][[r[i] for r in rows]] for i, k in enumerate(kinds)]


def place(values: np.ndarray, execute: int) -> np.ndarray:
    """Values on the active lanes of as many waves as needed, [wave, lane] (the last is repeated)."""
    lanes = active(execute)
    waves = -(-len(values) // len(lanes))
    out = np.zeros((waves, 64), values.dtype)
    out[:, lanes] = np.concatenate([values, np.repeat(values[-1:], waves * len(lanes) - len(values))]).reshape(waves, -1)
    return out


def active(execute: int) -> np.ndarray:
    """Numbers of the active lanes."""
    return np.flatnonzero([execute >> i & 1 for i in range(64)])


def words(values: np.ndarray) -> list[np.ndarray]:
    """The uint32 registers of values, low word first."""
    raw = np.ascontiguousarray(values).view(f"u{values.itemsize}")
    if values.itemsize < 8:
        return [raw.astype(np.uint32)]
    return [(raw & np.uint64(0xFFFFFFFF)).astype(np.uint32), (raw >> np.uint64(32)).astype(np.uint32)]


def register(i: int, kind: str, letter: str = "v") -> str:
    """The text of a register or of a pair."""
    return f"{letter}[{i}:{i + 1}]" if DTYPE[kind].itemsize == 8 else f"{letter}{i}"


def read(g, i: int, kind: str) -> np.ndarray:
    """[wave, lane] of a result."""
    if DTYPE[kind].itemsize == 8:
        return (g.V[i].astype(np.uint64) | g.V[i + 1].astype(np.uint64) << np.uint64(32)).view(DTYPE[kind])
    return g.V[i].astype(np.uint16).view(DTYPE[kind]) if DTYPE[kind].itemsize == 2 else g.V[i].view(DTYPE[kind])


def different(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Where the bits differ; any NaN is like any other."""
    unsigned = f"u{got.itemsize}"
    bad = np.ascontiguousarray(got).view(unsigned) != np.ascontiguousarray(want).view(unsigned)
    return bad & ~(np.isnan(got) & np.isnan(want)) if got.dtype.kind == "f" else bad


def check(
    line: str, result: str, kinds: str, formula, *, arch: str = "gfx950", upper: str = "zero", edges=None, ulp: int = 0, values=None
) -> None:
    """Runs `line` ({d}, {a}, {b}, {c} are its operands) on every combination of edge values and compares with the formula.

    upper: what a 16-bit result leaves in the upper half: "zero", "old" or "any".
    ulp: units in the last place that a result may differ by.
    values: columns to use instead of the edge values.
    """
    names = kinds.split()
    inputs = values or columns(names, edges)
    with np.errstate(all="ignore"):
        want = np.broadcast_to(np.asarray(formula(*inputs)), inputs[0].shape).astype(DTYPE[result], copy=False)
    operands = {n: register(10 + 4 * i, k) for i, (n, k) in enumerate(zip("abc", names, strict=False))}
    text = line.format(d=register(40, result), **operands)
    assemble(text, arch)
    for execute in (ALL, SOME):
        vectors = {10 + 4 * i + k: w for i, column in enumerate(inputs) for k, w in enumerate(words(place(column, execute)))}
        g = asm.run(text, vectors | {40: OLD, 41: OLD}, arch=arch, execute=execute, waves=len(vectors[10]))
        got = read(g, 40, result)[:, active(execute)].reshape(-1)[: len(want)]
        bad = different(got, want)
        if result in ("2f16", "2bf16", "2f32"):
            bad = np.any([different(x, y) for x, y in zip(halves(got, result), halves(want, result), strict=True)], 0)
        if ulp:
            unsigned = f"i{want.itemsize}"
            bad &= ~(np.isfinite(want) & (np.abs(got.view(unsigned).astype(np.int64) - want.view(unsigned).astype(np.int64)) <= ulp))
        if bad.any():
            k = int(np.flatnonzero(bad)[0])
            raise AssertionError(f"{text}: {[c[k] for c in inputs]} gives {got[k]!r}, not {want[k]!r} ({bad.sum()} of {bad.size})")
        off = np.setdiff1d(np.arange(64), active(execute))
        assert (g.V[40][:, off] == OLD).all(), "switched-off lanes were written"
        if DTYPE[result].itemsize == 2 and upper != "any":
            assert (g.V[40][:, active(execute)] >> 16 == (0 if upper == "zero" else OLD >> 16)).all(), "upper half"


@functools.cache
def _assembler():
    amd = __import__("triton._C.libtriton", fromlist=["amd", "llvm"]) if _has_triton() else None
    if amd is None or not hasattr(amd.amd, "assemble_amdgcn"):
        return None
    amd.llvm.init_targets()
    return amd.amd.assemble_amdgcn


def _has_triton() -> bool:
    import importlib.util

    return importlib.util.find_spec("triton") is not None


@functools.cache
def assemble(text: str, arch: str) -> None:
    """LLVM, as Triton brings it, accepts the text for the target. Nothing is checked where there is no Triton."""
    assembler = _assembler()
    if assembler is None:
        return
    body = "\n".join(text.splitlines()) + "\n"
    with tempfile.TemporaryFile() as file:  # LLVM writes its errors to the descriptor
        saved = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            size = len(assembler(body, arch, ""))
        finally:
            os.dup2(saved, 2)
            os.close(saved)
        file.seek(0)
        errors = file.read().decode()
    assert size and "error:" not in errors, errors
