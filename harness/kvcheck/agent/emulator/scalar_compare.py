"""Scalar comparisons into SCC, bit tests, and selection by SCC."""

from __future__ import annotations

import numpy as np

from .decoder import Decoder, Step, op
from .scalar import literal16, set_scc, source, writer
from .state import Group

U32, U64, I32 = np.uint32, np.uint64, np.int32


@op(*(f"s_cmp_{c}_{t}" for c in ("eq", "lg", "gt", "ge", "lt", "le") for t in ("i32", "u32")), "s_cmp_eq_u64", "s_cmp_lg_u64")
def compare(d: Decoder) -> Step:
    """Comparisons into SCC."""
    words = d.name.split("_")
    fn = {"eq": np.equal, "lg": np.not_equal, "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal}[words[2]]
    a, b = source(d, 0, words[3]), source(d, 1, words[3])
    set_scc(d)

    def run(g: Group) -> None:
        g.scc = np.broadcast_to(fn(a(g), b(g)), g.size).copy()

    return run


@op(*(f"s_cmpk_{c}_{t}" for c in ("eq", "lg", "gt", "ge", "lt", "le") for t in ("i32", "u32")))
def compare_immediate(d: Decoder) -> Step:
    """Comparisons with a 16-bit immediate."""
    words = d.name.split("_")
    fn = {"eq": np.equal, "lg": np.not_equal, "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal}[words[2]]
    a = source(d, 0, words[3])
    value = I32(literal16(d, 1)) if words[3] == "i32" else U32(int(d.operand(1).value) & 0xFFFF)
    set_scc(d)

    def run(g: Group) -> None:
        g.scc = fn(a(g), value)

    return run


@op("s_bitcmp0_b32", "s_bitcmp1_b32", "s_bitcmp0_b64", "s_bitcmp1_b64")
def bit_compare(d: Decoder) -> Step:
    """Tests one bit."""
    wide = d.name.endswith("64")
    a, n, want = source(d, 0, "u64" if wide else "u32"), source(d, 1, "u32"), d.name[8] == "1"
    dtype = U64 if wide else U32
    set_scc(d)

    def run(g: Group) -> None:
        bit = (a(g) >> (n(g) & U32(63 if wide else 31)).astype(dtype)) & dtype(1)
        g.scc = np.broadcast_to((bit == 1) == want, g.size).copy()

    return run


@op("s_cselect_b32", "s_cselect_b64")
def select(d: Decoder) -> Step:
    """One of two sources by SCC."""
    wide = d.name.endswith("64")
    kind = "u64" if wide else "u32"
    put, a, b = writer(d, 0, wide), source(d, 1, kind), source(d, 2, kind)
    d.reads.add(("scc", 0))
    return lambda g: put(g, np.where(g.scc, a(g), b(g)))
