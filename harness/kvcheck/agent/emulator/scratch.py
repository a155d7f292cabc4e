"""Scratch: private memory of each lane, where registers are spilled."""

from __future__ import annotations

import numpy as np

from .decoder import BUILDERS, Decoder, Step
from .errors import MemoryFault
from .state import Group
from .vmem import LOADS, SIZES, STORES, cache_flags, lanes_of, offset_of, put_loaded, stored

U32, I64 = np.uint32, np.int64
LANE = np.arange(64)


def _address(d: Decoder, vector: int, scalar: int, size: int, write: bool):
    ins, machine = d.ins, d.machine
    offset = offset_of(d)
    lane = None if d.operand(vector).kind == "off" else d.raw(vector)
    base = None if d.operand(scalar).kind == "off" else d.source(scalar, "u32")

    def run(g: Group) -> tuple[np.ndarray, np.ndarray | None]:
        at = np.full((g.size, 64), offset, I64)
        if lane is not None:
            at = at + lane(g).view(np.int32)
        if base is not None:
            at = at + np.asarray(base(g)).astype(I64)
        memory = machine.scratch
        on = np.ones_like(at, bool) if g.full else g.exec
        bad = on & ((at < 0) | (at + size > memory.limit))
        if bad.any():
            finding = machine.findings.add(
                "out_of_bounds_write" if write else "out_of_bounds_read",
                ins,
                tensor="scratch",
                offset=int(at[bad][0]),
                size=memory.limit,
                lanes=int(bad.sum()),
                active=int(on.sum()),
            )
            if finding is not None:
                raise MemoryFault(finding)
        return lanes_of(g, at + (g.wave[:, None] * 64 + LANE) * memory.size, None)

    return run


def _define(name: str, load: bool) -> None:
    size = SIZES[name]
    count = max(1, size // 4)

    def build(d: Decoder) -> Step:
        cache_flags(d)
        d.flag("sc0")
        d.counter = "vm"
        index = d.vector(0 if load else 1, count, write=load)
        address = _address(d, 1 if load else 0, 2, size, not load)
        machine, signed = d.machine, name[0] == "s" and load

        def run(g: Group) -> None:
            where, mask = address(g)
            if not load:
                machine.scratch.store(where, stored(g, index, count, mask), size)
                return
            words = machine.scratch.load(where, size)
            if signed:
                words = words.astype(np.int8 if size == 1 else np.int16).astype(np.int32).view(U32)
            put_loaded(g, index, words, mask)

        return run

    BUILDERS[f"scratch_{'load' if load else 'store'}_{name}"] = build


for _name in LOADS:
    if "_d16" not in _name:
        _define(_name, True)
for _name in STORES:
    if "_d16" not in _name:
        _define(_name, False)
