"""Branches, barriers, waits, MODE and the end of a program. A step returns the next instruction, a Split, or one of the signals."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from .decoder import Decoder, Step, op
from .state import EXEC, VCC, Group

BARRIER = "barrier"
END = "end"


class Split(NamedTuple):
    """Waves part at a branch: [wave] booleans of those that take it, and the target."""

    taken: np.ndarray
    target: int


def target(d: Decoder) -> int:
    """Index of the instruction that a branch goes to."""
    label = d.word(0)
    if label not in d.text.labels:
        raise d.ins.refuse(f"label {label}")
    return d.text.labels[label]


@op("s_branch")
def branch(d: Decoder) -> Step:
    """Unconditional branch."""
    to = target(d)
    return lambda g: to


@op("s_cbranch_scc0", "s_cbranch_scc1", "s_cbranch_vccz", "s_cbranch_vccnz", "s_cbranch_execz", "s_cbranch_execnz")
def conditional(d: Decoder) -> Step:
    """Branch on SCC, VCC or EXEC; waves may part here."""
    to, name = target(d), d.name[10:]
    if name.startswith("scc"):
        d.reads.add(("scc", 0))
        flip = name == "scc0"
        test = lambda g: ~g.scc if flip else g.scc  # noqa: E731
    else:
        index = EXEC if name.startswith("exec") else VCC
        d.reads.update((("s", index), ("s", index + 1)))
        zero = name.endswith("z") and not name.endswith("nz")
        test = lambda g: ((g.S[index] | g.S[index + 1]) == 0) == zero  # noqa: E731

    def run(g: Group) -> int | Split | None:
        taken = test(g)
        n = int(np.count_nonzero(taken))
        if n == 0:
            return None
        return to if n == g.size else Split(taken, to)

    return run


def nothing(g: Group) -> None:
    """Timing and caching only."""


@op("s_nop", "s_sleep", "s_setprio", "s_icache_inv", "s_dcache_inv", "s_dcache_wb", "buffer_wbl2", "buffer_inv", "s_sethalt")
def no_effect(d: Decoder) -> Step:
    """Instructions that only concern time, priority and caches."""
    for i in range(len(d.operands)):
        d.word(i)
    for flag in ("sc0", "sc1", "nt"):
        d.flag(flag)
    return nothing


@op("s_waitcnt")
def waitcnt(d: Decoder) -> Step:
    """Waits are checked before the program runs (hazards.py); nothing is outstanding here."""
    for i in range(len(d.operands)):
        word = d.word(i)
        if re.sub(r"(vmcnt|lgkmcnt|expcnt)\(\d+\)|[&\s]", "", word):
            raise d.ins.refuse(f"operand {word!r}")
    return nothing


@op("s_barrier")
def barrier(d: Decoder) -> Step:
    """Waits for the workgroup's other waves."""
    return lambda g: BARRIER


@op("s_endpgm")
def end(d: Decoder) -> Step:
    """Ends the waves."""
    return lambda g: END


@op("s_setreg_imm32_b32")
def setreg(d: Decoder) -> Step:
    """MODE: rounding must stay nearest-even and denormals on; FP16_OVFL is kept and read by the conversions."""
    found = re.match(r"hwreg\((HW_REG_MODE|1)(?:,\s*(\d+),\s*(\d+))?\)$", d.word(0).replace(" ", ""))
    if not found:
        raise d.ins.refuse(f"register {d.ins.operands[0]}")
    offset, width = int(found.group(2) or 0), int(found.group(3) or 32)
    value = int(d.operand(1).value)
    keep = ~(((1 << width) - 1) << offset)
    put = (value & ((1 << width) - 1)) << offset
    if put & 0xF:
        raise d.ins.refuse("a rounding mode other than nearest-even")
    if ~keep & 0xF0 & ~put:
        raise d.ins.refuse("denormals switched off")

    def run(g: Group) -> None:
        g.mode = (g.mode & keep) | put

    return run
