"""LDS and scratch: per-workgroup and per-wave memories as one byte array for a batch, with bounds checked against the owner's share."""

from __future__ import annotations

import numpy as np

U32, I64 = np.uint32, np.int64


class Local:
    """`owners` memories of `size` bytes each."""

    def __init__(self, owners: int, size: int, fill: int) -> None:
        self.size = (size + 15) // 16 * 16
        self.limit = size
        self.bytes = np.full(max(16, owners * self.size), fill, np.uint8)
        self.words = self.bytes.view(U32)
        self.halves = self.bytes.view(np.uint16)

    def load(self, index: np.ndarray, size: int) -> np.ndarray:
        """Bytes at absolute positions (int64 [n]) as [words, n] uint32."""
        if size == 1:
            return self.bytes.take(index).astype(U32)[None]
        if size == 2 and not int(np.bitwise_or.reduce(index)) & 1:
            return self.halves.take(index >> 1).astype(U32)[None]
        if size >= 4 and not int(np.bitwise_or.reduce(index)) & 3:
            at = index >> 2
            out = np.empty((size // 4, index.size), U32)
            for k in range(size // 4):
                out[k] = self.words.take(at + k if k else at)
            return out
        raw = np.zeros((index.size, max(4, size)), np.uint8)
        raw[:, :size] = self.bytes[index[:, None] + np.arange(size)]
        return np.ascontiguousarray(raw.view(U32).T)

    def store(self, index: np.ndarray, words: np.ndarray, size: int) -> None:
        """Writes [words, n] uint32 to absolute positions."""
        if size >= 4 and index.size and not int(np.bitwise_or.reduce(index)) & 3:
            at = index >> 2
            for k in range(size // 4):
                self.words[at + k] = words[k]
            return
        raw = np.ascontiguousarray(words.T).view(np.uint8)
        for k in range(size):
            self.bytes[index + k] = raw[:, k]
