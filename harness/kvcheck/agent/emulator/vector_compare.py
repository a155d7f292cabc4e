"""Vector comparisons into lane masks, class tests, and selection by mask."""

from __future__ import annotations

import numpy as np

from .decoder import Decoder, Step, op
from .state import EXEC, VCC, Group
from .vector import destination, sources

ORDERED = {
    "lt": np.less,
    "eq": np.equal,
    "le": np.less_equal,
    "gt": np.greater,
    "lg": lambda x, y: (x < y) | (x > y),
    "ge": np.greater_equal,
}
TESTS = {
    **ORDERED,
    "o": lambda x, y: ~(np.isnan(x) | np.isnan(y)),
    "u": lambda x, y: np.isnan(x) | np.isnan(y),
    "nge": lambda x, y: ~(x >= y),
    "nlg": lambda x, y: ~((x < y) | (x > y)),
    "ngt": lambda x, y: ~(x > y),
    "nle": lambda x, y: ~(x <= y),
    "neq": np.not_equal,
    "nlt": lambda x, y: ~(x < y),
    "tru": lambda x, y: np.ones(np.broadcast(x, y).shape, bool),
    "f": lambda x, y: np.zeros(np.broadcast(x, y).shape, bool),
}
INTEGER = {"lt": np.less, "eq": np.equal, "le": np.less_equal, "gt": np.greater, "ne": np.not_equal, "ge": np.greater_equal}


def mask_writer(d: Decoder):
    """Writes a comparison's mask to its scalar destination; v_cmpx writes EXEC too."""
    index = d.scalar(0, 2)
    also_exec = d.name.startswith("v_cmpx")
    if also_exec:
        d.note_write("s", EXEC, 2)

    def put(g: Group, value: np.ndarray) -> None:
        value = np.broadcast_to(value, (g.size, 64))
        value = value.copy() if g.full else value & g.exec
        g.put_mask(index, value)
        if also_exec and index != EXEC:
            g.put_mask(EXEC, value)

    return put


@op(
    *(f"{c}_{t}_{k}" for c in ("v_cmp", "v_cmpx") for t in TESTS for k in ("f16", "f32", "f64")),
    *(f"{c}_{t}_{k}{b}" for c in ("v_cmp", "v_cmpx") for t in INTEGER for k in "iu" for b in (16, 32, 64)),
)
def compare(d: Decoder) -> Step:
    """Comparisons of every type into a lane mask."""
    _, _, test, kind = d.name.split("_")
    if "clamp" in d.modifiers:
        raise d.ins.refuse("clamp (signalling compare)")
    fn = TESTS[test] if kind[0] == "f" else INTEGER[test]
    (a, b), lanes = sources(d, [kind, kind], [1, 2])
    if lanes is not None:
        raise d.ins.refuse("DPP")
    d.modifiers.pop("op_sel", None)
    put = mask_writer(d)
    return lambda g: put(g, fn(a(g), b(g)))


@op("v_cmp_class_f16", "v_cmp_class_f32", "v_cmp_class_f64", "v_cmpx_class_f32")
def classify(d: Decoder) -> Step:
    """Bits of the second source: sNaN, qNaN, -inf, -normal, -denormal, -0, +0, +denormal, +normal, +inf."""
    kind = d.name[-3:]
    (a,), _ = sources(d, [kind], [1])
    wanted = d.source(2, "u32")
    put = mask_writer(d)
    smallest = {"f16": 2.0**-14, "f32": 2.0**-126, "f64": 2.0**-1022}[kind]
    unsigned = {"f16": np.uint16, "f32": np.uint32, "f64": np.uint64}[kind]
    quiet = unsigned({"f16": 0x200, "f32": 0x400000, "f64": 0x8000000000000}[kind])

    def run(g: Group) -> None:
        x, want = np.broadcast_to(a(g), (g.size, 64)), wanted(g)
        minus, size = np.signbit(x), np.abs(x)
        nan = np.isnan(x)
        is_quiet = (np.ascontiguousarray(x).view(unsigned) & quiet) != 0
        level = np.where(size == np.inf, 3, np.where(size >= smallest, 2, np.where(size > 0, 1, 0)))
        bit = np.where(nan, np.where(is_quiet, 1, 0), np.where(minus, 5 - level, 6 + level)).astype(np.uint32)
        put(g, ((want >> bit) & np.uint32(1)) == 1)

    return run


@op("v_cndmask_b32")
def choose(d: Decoder) -> Step:
    """Source 1 where the mask is set, source 0 elsewhere."""
    (a, b), lanes = sources(d, ["f32", "f32"], [1, 2])
    put = destination(d, "f32", lanes)
    mask = d.scalar(3, 2, write=False) if len(d.operands) > 3 else VCC
    if mask == VCC:
        d.reads_vcc()
    return lambda g: put(g, np.where(g.mask(mask), b(g), a(g)))
