"""Checks a decoded program before it runs: registers that nobody wrote, and results used before the s_waitcnt that makes them valid.

Both are data-flow analyses over the program's branches. A finding is reported when the instruction is executed, not when it is only there.
"""

from __future__ import annotations

import heapq
import re
from typing import Any

from .decoder import Decoder, Step
from .state import EXEC, Group

LIMITS = {"vm": "vmcnt", "lgkm": "lgkmcnt", "smem": "lgkmcnt"}
OLDEST = 64
"""No counter counts further."""
Pending = dict[tuple[str, int], tuple[str, int]]
"""Register -> (counter, how many later operations of that counter were issued at least)."""


class Work:
    """Instructions still to be looked at, first in the text first, so that each is mostly looked at when all before it are settled."""

    def __init__(self, entry: int) -> None:
        self.heap, self.queued = [entry], {entry}

    def __len__(self) -> int:
        return len(self.heap)

    def push(self, i: int) -> None:
        """Adds an instruction, once."""
        if i not in self.queued:
            self.queued.add(i)
            heapq.heappush(self.heap, i)

    def pop(self) -> int:
        """Takes the first."""
        i = heapq.heappop(self.heap)
        self.queued.discard(i)
        return i


def successors(decoded: list[Decoder], i: int) -> list[int]:
    """Instructions that may come next."""
    name = decoded[i].name
    if name == "s_endpgm":
        return []
    if name == "s_branch":
        return [decoded[i].text.labels[decoded[i].ins.operands[0]]]
    following = [i + 1] if i + 1 < len(decoded) else []
    if name.startswith("s_cbranch"):
        following.append(decoded[i].text.labels[decoded[i].ins.operands[0]])
    return following


def waits(d: Decoder) -> dict[str, int]:
    """vmcnt and lgkmcnt of an s_waitcnt (missing: no wait)."""
    return {k: int(v) for k, v in re.findall(r"(vmcnt|lgkmcnt)\((\d+)\)", d.ins.raw)}


def after(d: Decoder, pending: Pending) -> Pending:
    """Outstanding results after an instruction."""
    if d.name == "s_waitcnt":
        limits = waits(d)

        def done(counter: str, age: int) -> bool:
            limit = limits.get(LIMITS[counter])
            # scalar loads return out of order: only a wait for zero makes them valid
            return limit is not None and (limit == 0 if counter == "smem" else age >= limit)

        return {r: (c, age) for r, (c, age) in pending.items() if not done(c, age)}
    if d.counter is None:
        return pending
    out = dict(pending)
    if d.counter != "smem":
        same = LIMITS[d.counter]
        for r, (c, age) in pending.items():
            if age < OLDEST and c != "smem" and LIMITS[c] == same:
                out[r] = (c, age + 1)
    if "load" in d.name or "read" in d.name or "permute" in d.name or "swizzle" in d.name or ("atomic" in d.name and d.writes):
        for register in d.writes:
            out[register] = (d.counter, 0)
    return out


def merge(a: Pending, b: Pending) -> Pending:
    """What may be outstanding when two paths meet."""
    if a == b:
        return a
    out = dict(a)
    for register, (counter, age) in b.items():
        out[register] = (counter, min(age, out[register][1])) if register in out else (counter, age)
    return out


def missing_waits(decoded: list[Decoder], entry: int) -> dict[int, tuple[str, int]]:
    """Instructions that use a register whose load may still be under way: index -> register."""
    before: list[Pending | None] = [None] * len(decoded)
    before[entry] = {}
    work, found = Work(entry), {}
    while work:
        i = work.pop()
        d, pending = decoded[i], before[i]
        hit = [r for r in (*d.reads, *d.writes) if r in pending] if pending else []
        if d.counter:  # a later load of the same kind into the same register is ordered behind the earlier one
            hit = [r for r in hit if r in d.reads or pending[r][0] != d.counter]
        if hit:
            found[i] = min(hit)
        state = after(d, {r: v for r, v in pending.items() if r not in hit} if hit else pending)
        for j in successors(decoded, i):
            joined = state if before[j] is None else merge(before[j], state)
            if joined != before[j]:
                before[j] = joined
                work.push(j)
    return found


def unwritten(decoded: list[Decoder], entry: int, start: set[tuple[str, int]]) -> dict[int, tuple[str, int]]:
    """Instructions that read a register that no path to them has written: index -> register."""
    numbers: dict[tuple[str, int], int] = {}

    def bits(registers: set[tuple[str, int]]) -> int:
        total = 0
        for r in registers:
            total |= 1 << numbers.setdefault(r, len(numbers))
        return total

    writes = [bits(d.writes) for d in decoded]
    before = [-1] * len(decoded)  # -1: not reached
    before[entry] = bits(start)
    work = Work(entry)
    while work:
        i = work.pop()
        state = before[i] | writes[i]
        for j in successors(decoded, i):
            if before[j] < 0 or state & ~before[j]:
                before[j] = state if before[j] < 0 else before[j] | state
                work.push(j)
    found = {}
    for i, d in enumerate(decoded):
        if before[i] >= 0 and bits(d.reads) & ~before[i]:
            missing = [r for r in sorted(d.reads - unneeded(d)) if not before[i] & bits({r})]
            if missing:
                found[i] = missing[0]
    return found


def unneeded(d: Decoder) -> set[tuple[str, int]]:
    """Sources that the compiler leaves unset on purpose: the upper half of a 64-bit addend when only the lower half of the sum is used; a
    scalar that is only saved into a lane."""
    if d.name in ("v_mad_u64_u32", "v_mad_i64_i32") and d.operands[4].kind == "v":
        return {("v", d.operands[4].index + 1)}
    if d.name == "v_writelane_b32" and d.operands[1].kind == "s":
        return {("s", d.operands[1].index)}
    return set()


def initial(machine: Any) -> set[tuple[str, int]]:
    """Registers the hardware sets before the first instruction."""
    t = machine.text.descriptor
    count = t.get("user_sgpr_count", 2) + sum(t.get(f"system_sgpr_workgroup_id_{a}", 0) for a in "xyz")
    return {("s", i) for i in range(count)} | {("s", EXEC), ("s", EXEC + 1), ("v", 0)}


def name_of(register: tuple[str, int]) -> str:
    """A register as the assembly text writes it."""
    kind, i = register
    return "scc" if kind == "scc" else f"a{i - 256}" if kind == "v" and i >= 256 else f"{kind}{i}"


def check(machine: Any, decoded: list[Decoder], steps: list[Step], given: frozenset[tuple[str, int]]) -> list[Step]:
    """Wraps the steps that are hazardous so that they report when they run."""
    entry = machine.text.entry
    problems = [
        ("missing_wait", i, r, "is used before the s_waitcnt that makes it valid") for i, r in missing_waits(decoded, entry).items()
    ]
    problems += [
        ("uninitialised_register", i, r, "is read and nothing wrote it")
        for i, r in unwritten(decoded, entry, initial(machine) | given).items()
    ]
    steps = list(steps)
    for kind, i, register, sentence in problems:
        steps[i] = _reporting(steps[i], machine, decoded[i], kind, f"{name_of(register)} {sentence}")
    return steps


def _reporting(step: Step, machine: Any, d: Decoder, kind: str, detail: str) -> Step:
    def run(g: Group) -> Any:
        machine.findings.add(kind, d.ins, lanes=g.size, detail=detail)
        return step(g)

    return run
