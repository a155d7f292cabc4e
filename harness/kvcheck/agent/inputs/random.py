"""Counter-based random integers: the same case is the same bytes on every machine, processor and process order.

`torch.randn` differs in its last bits between processors, and a sequential generator makes every draw depend on all
draws before it. Here element i of a named stream is a hash of (seed, stream, i), in 64-bit integer arithmetic alone.
Adding a stream moves no other, and a longer case begins with the bytes of the shorter one.
"""

from __future__ import annotations

import hashlib
from typing import Any

SPEC = {
    "summary": "splitmix64 of (seed, stream name, element index); Irwin-Hall sums of four bytes stand for a normal deviate",
}

NORMAL_UNIT = 148
"""Standard deviation of `normal`'s integers, rounded: sqrt(4 * (256**2 - 1) / 12) = 147.8."""


class Generator:
    """Random integers by stream name.

    Args:
        seed: any integer; equal seeds give equal bytes.
    """

    def __init__(self, seed: int):
        self.seed = seed

    def bits(self, stream: str, count: int, start: int = 0) -> Any:
        """Random 64-bit words.

        Args:
            stream: name of the draw.
            count: how many.
            start: index of the first.

        Returns:
            words: [count] int64. All 64 bits random.
        """
        import torch

        digest = hashlib.sha256(f"{self.seed}/{stream}".encode()).digest()
        base = int.from_bytes(digest[:8], "little", signed=True)
        x = torch.arange(start, start + count, dtype=torch.int64)
        x.mul_(_signed(0x9E3779B97F4A7C15)).add_(base)
        x ^= _shift(x, 30)
        x.mul_(_signed(0xBF58476D1CE4E5B9))
        x ^= _shift(x, 27)
        x.mul_(_signed(0x94D049BB133111EB))
        x ^= _shift(x, 31)
        return x

    def integers(self, stream: str, count: int, low: int, high: int, start: int = 0) -> Any:
        """Uniform integers.

        Args:
            stream: name of the draw.
            count: how many.
            low: smallest value.
            high: one past the largest; high - low at most 2**31.

        Returns:
            values: [count] int64. In [low, high).
        """
        words = self.bits(stream, count, start)
        return _shift(words, 32).mul_(high - low).bitwise_right_shift_(32).add_(low)

    def normal(self, stream: str, count: int, start: int = 0) -> Any:
        """Integers spread like a normal deviate: the sum of four random bytes, centred.

        Args:
            stream: name of the draw.
            count: how many.
            start: index of the first.

        Returns:
            values: [count] int16. Mean 0, standard deviation NORMAL_UNIT, in [-510, 510].
        """
        import torch

        first, odd = divmod(start, 2)
        words = self.bits(stream, (count + odd + 1) // 2, first)
        octets = words.view(torch.uint8).view(-1, 4)
        return octets.sum(1, dtype=torch.int16)[odd : odd + count].sub_(510)

    def permutation(self, stream: str, count: int) -> Any:
        """A random order of 0..count-1.

        Returns:
            order: [count] int64.
        """
        import torch

        return torch.sort(self.bits(stream, count), stable=True).indices


def _shift(x: Any, n: int) -> Any:
    """Logical right shift of int64 words."""
    return (x >> n).bitwise_and_((1 << (64 - n)) - 1)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
