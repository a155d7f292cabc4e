"""Shadows of LDS and global memory: who wrote what since the last barrier. Finds races, and reads of what nobody wrote.

LDS has a shadow entry for every 4 bytes (every byte when the kernel stores bytes or shorts): the epoch (barriers passed) and wave of the
last
writer and reader. Global tensors get one when a kernel first stores to them: workgroup, epoch and wave. Two waves that touch the same
place in the
same epoch, one of them writing another value, race; workgroups race whatever the epoch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .findings import Findings
from .memory import Region
from .state import Group, every_lane

I64, I32 = np.int64, np.int32
MANY = 255
SHADOWED = 1 << 30
"""Tensors above this many bytes are not watched for races: the shadow is twice as large as the tensor."""


def settled(cell: np.ndarray, who: np.ndarray, value: np.ndarray) -> np.ndarray:
    """What each lane's wave leaves in the lane's place: lanes of one wave may meet there, as copies of a sum do that differ by an ulp,
    and the highest of them stays."""
    _, pair = np.unique(np.stack([cell.astype(I64), np.broadcast_to(who, cell.shape).astype(I64)]), axis=1, return_inverse=True)
    pair = pair.reshape(-1)
    left = np.zeros(int(pair.max()) + 1, value.dtype)
    left[pair] = value
    return left[pair]


def disagreement(shadow: np.ndarray, cell: np.ndarray, who: np.ndarray, value: np.ndarray) -> np.ndarray | None:
    """Lanes of one batched store whose place another wave of the same call won with another value. Call after `shadow[cell] = who`."""
    lost = shadow.take(cell) != who
    if not lost.any():
        return None
    _, at = np.unique(cell, return_inverse=True)
    final = np.zeros(int(at.max()) + 1, value.dtype)
    final[at] = value
    lost &= final[at] != settled(cell, who, value)
    return lost if lost.any() else None


class Tracking:
    """The shadows of a launch's current batch."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.atomic = False
        self.shift: int | None = None
        """Log2 of the bytes an LDS entry stands for."""
        self.current: tuple[Any, Group, np.ndarray | None] | None = None

    def start(self, machine: Any, workgroups: np.ndarray, lds_bytes: int) -> None:
        """Begins a batch of workgroups."""
        if self.shift is None:
            small = any(i.mnemonic.startswith(("ds_write_b8", "ds_write_b16")) for i in machine.text.instructions)
            self.shift = 0 if small else 2
        self.ids = workgroups
        self.memory = machine.lds
        self.epoch = np.ones(len(workgroups), I32)
        n = machine.lds.bytes.size >> self.shift
        self.writer, self.reader = np.zeros(n, I32), np.zeros(n, I32)
        machine.arena.on_load, machine.arena.on_store = self.loaded, self.stored
        self.sync = machine.has_atomics

    def barrier(self, slots: np.ndarray) -> None:
        """The workgroups in these places of the batch passed a barrier."""
        self.epoch[slots] += 1

    def at(self, ins: Any, g: Group, mask: np.ndarray | None, atomic: bool = False) -> None:
        """Says which instruction the next global accesses belong to."""
        self.current, self.atomic = (ins, g, mask), atomic

    def _who(self, g: Group, mask: np.ndarray | None) -> np.ndarray:
        return every_lane(((self.epoch[g.workgroup] << 8) | (g.local + 1)).astype(I32), mask)

    def _cells(self, index: np.ndarray, size: int) -> list[np.ndarray]:
        first = index >> self.shift
        count = max(1, size >> self.shift)
        return [first + k if k else first for k in range(count)]

    def lds_read(self, ins: Any, g: Group, mask: np.ndarray | None, index: np.ndarray, size: int) -> None:
        """Checks and notes a read of LDS."""
        who = self._who(g, mask)
        for cell in self._cells(index, size):
            last = self.writer.take(cell)
            clash = ((last ^ who) & ~0xFF == 0) & (last != who)
            if clash.any():
                self._lds(ins, "race", clash, index, size, "read of what another wave wrote since the last barrier")
            empty = last == 0
            if empty.any():
                self._lds(ins, "uninitialised_read", empty, index, size, "nothing was written there")
            seen = self.reader.take(cell)
            other = ((seen ^ who) & ~0xFF == 0) & (seen != who)
            self.reader[cell] = np.where(other, who | MANY, who)

    def lds_write(self, ins: Any, g: Group, mask: np.ndarray | None, index: np.ndarray, size: int, words: np.ndarray) -> None:
        """Checks and notes a write to LDS."""
        who = self._who(g, mask)
        for k, cell in enumerate(self._cells(index, size)):
            value = words[k] if self.shift else (words[k // 4] >> np.uint32(8 * (k % 4))) & np.uint32(255)
            last, seen = self.writer.take(cell), self.reader.take(cell)
            read = ((seen ^ who) & ~0xFF == 0) & (seen != who)
            if read.any():
                self._lds(ins, "race", read, index, size, "write over what another wave read since the last barrier")
            clash = ((last ^ who) & ~0xFF == 0) & (last != who)
            if clash.any():
                there = (self.memory.words if self.shift else self.memory.bytes).take(cell)
                clash &= there != settled(cell, who, value)
                if clash.any():
                    self._lds(ins, "race", clash, index, size, "write of another value over another wave's write since the last barrier")
            self.writer[cell] = who
            lost = disagreement(self.writer, cell, who, value)
            if lost is not None:
                self._lds(ins, "race", lost, index, size, "waves write different values to one place with no barrier between them")

    def lds_atomic(self, ins: Any, g: Group, mask: np.ndarray | None, index: np.ndarray, size: int) -> None:
        """Atomics do not race with one another; a place touched by one counts as written."""
        who = self._who(g, mask)
        for cell in self._cells(index, size):
            empty = self.writer.take(cell) == 0
            if empty.any():
                self._lds(ins, "uninitialised_read", empty, index, size, "nothing was written there")
            self.writer[cell] = np.where(self.writer.take(cell) == 0, who, self.writer.take(cell))

    def _lds(self, ins: Any, kind: str, bad: np.ndarray, index: np.ndarray, size: int, detail: str) -> None:
        self.findings.add(
            kind,
            ins,
            tensor="lds",
            offset=int(index[bad][0] % self.memory.size),
            size=self.memory.limit,
            lanes=int(bad.sum()),
            active=bad.size,
            detail=detail,
        )

    def _global(self) -> tuple[Any, np.ndarray]:
        ins, g, mask = self.current
        code = ((self.ids[g.workgroup] + 1).astype(I64) << 32) | (self.epoch[g.workgroup].astype(I64) << 8) | (g.local + 1)
        return ins, every_lane(code, mask)

    @staticmethod
    def _conflict(last: np.ndarray, who: np.ndarray) -> np.ndarray:
        other_group = (last >> 32) != (who >> 32)
        same_epoch = ((last ^ who) >> 8) == 0
        return (last > 0) & (last != who) & (other_group | same_epoch)

    def loaded(self, region: Region, offset: np.ndarray, size: int) -> None:
        """Checks a global load."""
        if self.current is None:
            return
        ins = self.current[0]
        if region.unwritten is not None and not self.atomic:
            empty = region.unwritten.take(offset)
            if empty.any():
                self.findings.add(
                    "uninitialised_read",
                    ins,
                    tensor=region.name,
                    offset=int(offset[empty][0]),
                    size=region.size,
                    lanes=int(empty.sum()),
                    active=offset.size,
                    detail="nothing was written there",
                )
        if region.writer is None or self.atomic or self.sync:
            return
        _, who = self._global()
        if who.size != offset.size:
            return
        clash = self._conflict(region.writer.take(offset >> 2), who)
        if clash.any():
            self._race(ins, region, clash, offset, "load of what another wave stored, with nothing between them")

    def stored(self, region: Region, offset: np.ndarray, size: int, words: np.ndarray) -> None:
        """Checks and notes a global store."""
        if self.current is None:
            return
        ins, who = self._global()
        if self.atomic or self.sync or who.size != offset.size or size < 4 or region.size > SHADOWED:
            return
        if region.writer is None:
            region.writer = np.zeros(region.size // 4 + 1, I64)
        for k in range(size // 4):
            cell = (offset >> 2) + k
            clash = self._conflict(region.writer.take(cell), who)
            if clash.any() and region.words is not None:
                clash &= region.words.take(np.minimum(cell, region.words.size - 1)) != settled(cell, who, words[k])
                if clash.any():
                    self._race(ins, region, clash, offset, "store of another value over another wave's store, with nothing between them")
            region.writer[cell] = who
            lost = disagreement(region.writer, cell, who, words[k])
            if lost is not None:
                self._race(ins, region, lost, offset, "waves store different values to one place, with nothing between them")

    def _race(self, ins: Any, region: Region, bad: np.ndarray, offset: np.ndarray, detail: str) -> None:
        self.findings.add(
            "race",
            ins,
            tensor=region.name,
            offset=int(offset[bad][0]),
            size=region.size,
            lanes=int(bad.sum()),
            active=bad.size,
            detail=detail,
        )
