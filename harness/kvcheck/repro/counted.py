"""The run's random integers without torch: what `agent/inputs/random.py` draws, for tensors that are written out in a script."""

from __future__ import annotations

import hashlib

MASK = (1 << 64) - 1


class Generator:
    """Random integers by stream name.

    Args:
        seed: of the run's inputs.
    """

    def __init__(self, seed: int):
        self.seed = seed

    def bits(self, stream: str, count: int) -> list[int]:
        """Random words, as signed 64-bit integers.

        Args:
            stream: name of the draw.
            count: how many.
        """
        base = int.from_bytes(hashlib.sha256(f"{self.seed}/{stream}".encode()).digest()[:8], "little")
        return [_signed(_mixed(base + index * 0x9E3779B97F4A7C15 & MASK)) for index in range(count)]

    def integers(self, stream: str, count: int, low: int, high: int) -> list[int]:
        """Uniform integers in [low, high)."""
        return [((word & MASK) >> 32) * (high - low) // (1 << 32) + low for word in self.bits(stream, count)]

    def permutation(self, stream: str, count: int) -> list[int]:
        """A random order of 0..count-1."""
        words = self.bits(stream, count)
        return sorted(range(count), key=words.__getitem__)


def _mixed(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
