"""Which bytes of which tensors a process loaded and stored: what decides whether the order of workgroups can matter."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .memory import Region

U32 = np.uint32


class Marks:
    """Notes of one process, by tensor. `exact` is lost where bytes are not all that decides."""

    def __init__(self) -> None:
        self.loads: dict[Region, np.ndarray] = {}
        self.stores: dict[Region, np.ndarray] = {}
        self.exact = True

    def load(self, region: Region, offset: np.ndarray, size: int) -> None:
        """Notes a load. One of an input needs no note: a store to an input loses `exact`."""
        if region.writable:
            self._mark(self.loads, region, offset, size)

    def store(self, region: Region, offset: np.ndarray, size: int) -> None:
        """Notes a store."""
        if not region.writable or (size >= 4 and not aligned(offset)):  # the shadow of races has entries of 4 bytes
            self.exact = False
        self._mark(self.stores, region, offset, size)

    def _mark(self, kept: dict[Region, np.ndarray], region: Region, offset: np.ndarray, size: int) -> None:
        marks = kept.get(region)
        if marks is None:
            marks = kept[region] = np.zeros(region.size // 4 * 4 + 4, bool)
        if size >= 4 and aligned(offset):
            at, words = offset >> 2, marks.view(U32)
            for k in range(size // 4):
                words[at + k] = 0x01010101
        else:
            for k in range(size):
                marks[offset + k] = True


def aligned(offset: np.ndarray) -> bool:
    """Whether all offsets are multiples of 4."""
    return not int(np.bitwise_or.reduce(offset)) & 3


class Bits(NamedTuple):
    """Marks of one tensor from the first marked byte to the last, packed."""

    first: int
    count: int
    packed: np.ndarray

    @classmethod
    def of(cls, marks: np.ndarray) -> Bits:
        """Cuts marks to where they are set (somewhere they are)."""
        first, last = int(marks.argmax()), marks.size - int(marks[::-1].argmax())
        return cls(first, last - first, np.packbits(marks[first:last]))

    def marks(self) -> np.ndarray:
        """bool [count]."""
        return np.unpackbits(self.packed, count=self.count).view(bool)

    def meets(self, other: Bits) -> bool:
        """Whether a byte is in both."""
        low, high = max(self.first, other.first), min(self.first + self.count, other.first + other.count)
        if low >= high:
            return False
        mine, theirs = (bits.marks()[low - bits.first : high - bits.first] for bits in (self, other))
        return bool((mine & theirs).any())
