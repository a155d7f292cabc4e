"""Global memory as a sparse arena: every tensor stands alone in 256 GiB of nothing, so that an address says which tensor it belongs to.

A wild offset of one tensor can therefore never be excused by landing in another. Tensors are not copied: loads and stores go to their
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

SLOT_BITS = 38
HALF = 1 << (SLOT_BITS - 1)
I64, U32 = np.int64, np.uint32


class Region:
    """One tensor (or several that overlap): where it lies, its bytes, and the sanitizer's shadows."""

    def __init__(self, name: str, base: int, memory: np.ndarray, writable: bool = True, unwritten: np.ndarray | None = None) -> None:
        self.name, self.base, self.size, self.end = name, base, memory.size, base + memory.size
        self.memory, self.writable = memory, writable
        self.unwritten = unwritten
        self.writer: np.ndarray | None = None
        aligned = base % 4 == 0
        whole = memory.size // 4 * 4
        self.words = memory[:whole].view(U32) if aligned else None
        self.halves = memory[: memory.size // 2 * 2].view(np.uint16) if base % 2 == 0 else None


class Access:
    """An access that left its tensor: which lanes, which tensor, which offset."""

    def __init__(self, region: Region | None, bad: np.ndarray, address: int) -> None:
        self.region, self.bad, self.address = region, bad, address


class Arena:
    """All memory of a launch. `fault` is called with an Access when lanes leave their tensor, and must raise or return."""

    def __init__(self) -> None:
        self.regions: list[Region] = []
        self.slots: dict[int, Region] = {}
        self.last: Region | None = None
        self.protected: list[Region] = []
        self.marks: Any = None
        """Notes of what is loaded and stored (marks.py), in a process that runs a share of the workgroups."""
        self.on_load: Callable[[Region, np.ndarray, int], None] | None = None
        self.on_store: Callable[[Region, np.ndarray, int, np.ndarray], None] | None = None

    def add(
        self,
        name: str,
        memory: np.ndarray,
        low_bits: int = 0,
        writable: bool = True,
        unwritten: np.ndarray | None = None,
        base: int | None = None,
    ) -> int:
        """Places bytes (uint8 [n]) and returns their address; `low_bits` are the address modulo 4096, so that alignment is as on the
        host; `unwritten` (bool [n]) says which nobody wrote yet."""
        if base is None:
            base = ((len(self.regions) + 1) << SLOT_BITS) + HALF + low_bits % 4096
        region = Region(name, base, memory, writable, unwritten)
        self.regions.append(region)
        if not writable:
            self.protected.append(region)
        for slot in range((base - HALF // 2) >> SLOT_BITS, ((region.end + HALF // 2) >> SLOT_BITS) + 1):
            self.slots.setdefault(slot, region)
        return base

    def owner(self, address: int) -> Region | None:
        """The tensor an address belongs to, in bounds or not."""
        return self.slots.get(address >> SLOT_BITS)

    def parts(self, address: np.ndarray, size: int, fault: Callable[[Access], None]) -> Iterator[tuple[Region, np.ndarray, Any]]:
        """Splits addresses (int64 [n]) by tensor: (region, offsets, index of these lanes); lanes out of bounds go to `fault` and are
        left out."""
        if not address.size:
            return
        low, high = int(address.min()), int(address.max())
        region = self.last
        if region is None or low < region.base or high + size > region.end:
            region = self.owner(low)
        if region is not None and low >= region.base and high + size <= region.end:
            self.last = region
            yield region, address - region.base, slice(None)
            return
        for slot in np.unique(address >> SLOT_BITS):
            here = (address >> SLOT_BITS) == slot
            region = self.slots.get(int(slot))
            good = here & (address >= region.base) & (address + size <= region.end) if region else np.zeros_like(here)
            bad = here & ~good
            if bad.any():
                fault(Access(region, bad, int(address[bad][0])))
            if good.any():
                yield region, address[good] - region.base, good

    def load(self, address: np.ndarray, size: int, fault: Callable[[Access], None]) -> np.ndarray:
        """Bytes at addresses as [words, n] uint32 (one zero-extended word for 1 and 2 bytes). Lanes out of bounds read 0."""
        out = np.zeros((max(1, size // 4), address.size), U32)
        for region, offset, lanes in self.parts(address, size, fault):
            if self.marks is not None:
                self.marks.load(region, offset, size)
            if self.on_load is not None:
                self.on_load(region, offset, size)
            if size >= 4 and region.words is not None and not int(np.bitwise_or.reduce(offset)) & 3:
                index = offset >> 2
                for k in range(size // 4):
                    out[k, lanes] = region.words.take(index + k if k else index)
            elif size == 1:
                out[0, lanes] = region.memory.take(offset)
            elif size == 2 and region.halves is not None and not int(np.bitwise_or.reduce(offset)) & 1:
                out[0, lanes] = region.halves.take(offset >> 1)
            else:
                raw = np.zeros((offset.size, max(4, size)), np.uint8)
                raw[:, :size] = region.memory[offset[:, None] + np.arange(size)]
                out[:, lanes] = raw.view(U32).T
        return out

    def store(self, address: np.ndarray, words: np.ndarray, size: int, fault: Callable[[Access], None]) -> None:
        """Writes [words, n] uint32 to addresses; lanes out of bounds are dropped after `fault`."""
        for region, offset, lanes in self.parts(address, size, fault):
            here = words[:, lanes]
            if self.marks is not None:
                self.marks.store(region, offset, size)
            if self.on_store is not None:
                self.on_store(region, offset, size, here)
            if region.unwritten is not None:
                region.unwritten[offset[:, None] + np.arange(size)] = False
            if size >= 4 and region.words is not None and not int(np.bitwise_or.reduce(offset)) & 3:
                index = offset >> 2
                for k in range(size // 4):
                    region.words[index + k] = here[k]
            else:
                raw = np.ascontiguousarray(here.T).view(np.uint8)
                for k in range(size):
                    region.memory[offset + k] = raw[:, k]
