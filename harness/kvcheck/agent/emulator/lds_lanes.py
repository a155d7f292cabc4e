"""DS instructions that only move data between lanes: permutes and swizzles."""

from __future__ import annotations

import re

import numpy as np

from .decoder import Decoder, Step, op
from .state import Group
from .vector import store
from .vmem import offset_of

U32, I64 = np.uint32, np.int64
LANE = np.arange(64)


@op("ds_bpermute_b32")
def pull(d: Decoder) -> Step:
    """Each lane reads the lane that its address / 4 names; a switched-off lane reads as 0."""
    d.counter = "lgkm"
    address, data, index = d.raw(1), d.vector(2, 1, write=False), d.vector(0, 1)
    offset = offset_of(d)

    def run(g: Group) -> None:
        source = ((np.broadcast_to(address(g), (g.size, 64)).astype(I64) + offset) >> 2) & 63
        x = g.V[data] if g.full else np.where(g.exec, g.V[data], U32(0))
        store(g, index, np.take_along_axis(x, source, 1))

    return run


@op("ds_permute_b32")
def push(d: Decoder) -> Step:
    """Each active lane writes to the lane its address / 4 names; the highest writer wins, others read 0."""
    d.counter = "lgkm"
    address, data, index = d.raw(1), d.vector(2, 1, write=False), d.vector(0, 1)
    offset = offset_of(d)

    def run(g: Group) -> None:
        to = ((np.broadcast_to(address(g), (g.size, 64)).astype(I64) + offset) >> 2) & 63
        out = np.zeros((g.size, 64), U32)
        for lane in range(64):
            rows = np.nonzero(g.exec[:, lane])[0]
            out[rows, to[rows, lane]] = g.V[data][rows, lane]
        store(g, index, out)

    return run


def swizzle(d: Decoder) -> np.ndarray:
    """Source lane of each lane, from `offset:swizzle(...)` or a number."""
    text = d.modifier("offset", "0")
    found = re.match(r"swizzle\((.*)\)$", text.replace(" ", "").replace('"', ""))
    if not found:
        value = int(text, 0)
        if value & 0x8000:
            order = np.array([(value >> (2 * k)) & 3 for k in range(4)])
            return (LANE & ~3) + order[LANE & 3]
        keep, set_, flip = value & 31, (value >> 5) & 31, (value >> 10) & 31
        return (LANE & 32) | ((((LANE & keep) | set_) ^ flip) & 31)
    mode, *rest = found.group(1).split(",")
    if mode == "SWAP":
        return LANE ^ int(rest[0])
    if mode == "REVERSE":
        return LANE ^ (int(rest[0]) - 1)
    if mode == "BROADCAST":
        return (LANE & ~(int(rest[0]) - 1)) + int(rest[1])
    if mode == "QUAD_PERM":
        return (LANE & ~3) + np.array([int(t) for t in rest])[LANE & 3]
    if mode == "BITMASK_PERM" and len(rest[0]) == 5:
        out = LANE & 32
        for k, c in enumerate(rest[0]):
            bit = 16 >> k
            out = out | {"0": 0 * LANE, "1": bit + 0 * LANE, "p": LANE & bit, "i": (LANE ^ bit) & bit}[c]
        return out
    raise d.ins.refuse(text)


@op("ds_swizzle_b32")
def swizzle_lanes(d: Decoder) -> Step:
    """A switched-off source lane reads as 0."""
    d.counter = "lgkm"
    source = swizzle(d)
    data, index = d.vector(1, 1, write=False), d.vector(0, 1)

    def run(g: Group) -> None:
        x = g.V[data] if g.full else np.where(g.exec, g.V[data], U32(0))
        store(g, index, x[:, source])

    return run
