"""Instructions that move data between lanes, or between lanes and scalars."""

from __future__ import annotations

import numpy as np

from .decoder import Decoder, Step, op
from .scalar_bits import popcount
from .state import Group
from .vector import destination, store

U32, U64 = np.uint32, np.uint64
LANE = np.arange(64)
_BELOW = ((U64(1) << LANE.astype(U64)) - U64(1)).astype(U64)


@op("v_readfirstlane_b32")
def read_first(d: Decoder) -> Step:
    """The first active lane's value (lane 0 when none is active)."""
    index, source = d.scalar(0, 1), d.vector(1, 1, write=False)

    def run(g: Group) -> None:
        if g.full:
            g.S[index] = g.V[source][:, 0]
        else:
            g.S[index] = g.V[source][np.arange(g.size), g.exec.argmax(1)]

    return run


def lane_number(d: Decoder, place: int):
    """A reader of a lane number, [wave] in 0..63."""
    operand = d.operand(place)
    if operand.kind == "v":
        raise d.ins.refuse("a lane number from a vector register")
    get = d.source(place, "u32")
    return lambda g: np.broadcast_to(np.asarray(get(g)).reshape(-1), (g.size,)) & U32(63)


@op("v_readlane_b32")
def read_lane(d: Decoder) -> Step:
    """One lane's value, whether active or not."""
    index, source, lane = d.scalar(0, 1), d.vector(1, 1, write=False), lane_number(d, 2)

    def run(g: Group) -> None:
        g.S[index] = g.V[source][np.arange(g.size), lane(g)]

    return run


@op("v_writelane_b32")
def write_lane(d: Decoder) -> Step:
    """Ignores EXEC."""
    index, value, lane = d.vector(0, 1), d.source(1, "u32"), lane_number(d, 2)

    def run(g: Group) -> None:
        g.V[index][np.arange(g.size), lane(g)] = np.broadcast_to(np.asarray(value(g)).reshape(-1), (g.size,))

    return run


@op("v_permlane16_swap_b32", "v_permlane32_swap_b32")
def swap_halves(d: Decoder) -> Step:
    """Exchanges the upper lanes of the first register with the lower ones of the second, in rows of 16 or halves of 32. Active lanes
    only."""
    span = int(d.name[10:12])
    for place in (0, 1):
        d.vector(place, 1)
        d.vector(place, 1, write=False)
    for flag in ("bound_ctrl", "fi"):
        d.modifier(flag)
    first, second = d.operand(0).index, d.operand(1).index
    low = LANE[(LANE // span) % 2 == 0]
    high = low + span

    def run(g: Group) -> None:
        a, b = g.V[first], g.V[second]
        mine, theirs = a[:, high], b[:, low]
        if g.full:
            a[:, high], b[:, low] = theirs, mine
        else:
            on = g.exec
            a[:, high] = np.where(on[:, high], theirs, mine)
            b[:, low] = np.where(on[:, low], mine, theirs)

    return run


@op("v_swap_b32")
def swap(d: Decoder) -> Step:
    """Exchanges two registers in the active lanes."""
    for place in (0, 1):
        d.vector(place, 1)
        d.vector(place, 1, write=False)
    first, second = d.operand(0).index, d.operand(1).index

    def run(g: Group) -> None:
        a, b = g.V[first].copy(), g.V[second].copy()
        store(g, first, b)
        store(g, second, a)

    return run


@op("v_mbcnt_lo_u32_b32", "v_mbcnt_hi_u32_b32")
def count_below(d: Decoder) -> Step:
    """Bits of the mask below this lane, in the lower or upper half, plus source 1."""
    high = "hi" in d.name
    mask, add = d.source(1, "u32"), d.source(2, "u32")
    put = destination(d, "u32")
    below = (_BELOW >> U64(32)).astype(U32) if high else (_BELOW & U64(0xFFFFFFFF)).astype(U32)

    def run(g: Group) -> None:
        bits = np.broadcast_to(mask(g), (g.size, 64)) & below
        put(g, popcount(bits).astype(U32) + add(g))

    return run
