"""DPP: a vector instruction's first source taken from another lane of the same row of 16, or broadcast between rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .decoder import Decoder
from .operands import Getter
from .state import Group

LANE = np.arange(64)
ROW, IN_ROW = LANE // 16, LANE % 16


def pattern(d: Decoder) -> tuple[np.ndarray, np.ndarray]:
    """Source lane of every lane, and whether it exists, from the instruction's DPP control word."""
    always = np.ones(64, bool)
    for name in list(d.modifiers):
        if name == "quad_perm":
            order = np.array([int(t) for t in d.modifier(name).strip("[]").split(",")])
            return (LANE & ~3) + order[LANE & 3], always
        if name in ("row_shl", "row_shr", "row_ror"):
            n = int(d.modifier(name))
            if name == "row_shl":
                return np.minimum(LANE + n, 63), IN_ROW + n < 16
            if name == "row_shr":
                return np.maximum(LANE - n, 0), n <= IN_ROW
            return ROW * 16 + (IN_ROW - n) % 16, always
        if name == "row_bcast":
            n = int(d.modifier(name))
            if n == 15:
                return np.maximum(ROW * 16 - 1, 0), ROW >= 1
            if n == 31:
                return np.full(64, 31), LANE >= 32
            raise d.ins.refuse(f"row_bcast:{n}")
        if name == "row_newbcast":
            return ROW * 16 + int(d.modifier(name)), always
        if name == "row_mirror":
            d.flag(name)
            return ROW * 16 + 15 - IN_ROW, always
        if name == "row_half_mirror":
            d.flag(name)
            return (LANE & ~7) + 7 - (LANE & 7), always
        if name in ("wave_shl", "wave_shr", "wave_rol", "wave_ror"):
            d.modifier(name)
            step = 1 if name in ("wave_shl", "wave_rol") else -1
            source = LANE + step
            inside = always if name in ("wave_rol", "wave_ror") else (source >= 0) & (source < 64)
            return source % 64, inside
    raise d.ins.refuse("no DPP control")


def reader(d: Decoder, get: Getter) -> tuple[Getter, Callable[[Group], np.ndarray]]:
    """The shifted source, and the lanes that may be written.

    A lane whose source does not exist or is switched off reads 0 with bound_ctrl, and is not written without it.
    """
    source, exists = pattern(d)
    rows, banks = (int(d.modifier(k, "0xf"), 0) for k in ("row_mask", "bank_mask"))
    enabled = ((rows >> ROW) & 1).astype(bool) & ((banks >> (IN_ROW // 4)) & 1).astype(bool)
    zero = d.flag("bound_ctrl")
    everywhere = bool(exists.all())

    def values(g: Group) -> np.ndarray:
        x = np.broadcast_to(get(g), (g.size, 64))[:, source]
        if everywhere and g.full:
            return x
        return np.where(exists & g.exec[:, source], x, np.uint32(0))

    def lanes(g: Group) -> np.ndarray:
        if zero:
            return g.exec & enabled
        return g.exec & enabled & exists & g.exec[:, source]

    return values, lanes
