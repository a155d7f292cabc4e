"""The registers of a group of waves that stand at the same instruction.

Arrays have the wave in the middle: vector registers `[register, wave, lane]`, scalar ones `[register, wave]`, so that one numpy call
serves all
waves of the group. A group is split where waves part at a branch and joined again where they meet.
"""

from __future__ import annotations

import numpy as np

VCC, M0, EXEC = 106, 124, 126
SCALARS = 128
LANES = 64
POISON = 0x7FC0DEAD
"""What registers hold before anything is written: a NaN in every float format, an absurd index as an integer."""


def every_lane(code: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    """A value of every wave, for each of its active lanes."""
    return code.repeat(LANES if mask is None else np.count_nonzero(mask, axis=1))


def over_lanes(x: np.ndarray, waves: int) -> np.ndarray:
    """An operand as [wave, lane]."""
    return x if x.shape == (waves, LANES) else np.broadcast_to(x, (waves, LANES))


class Group:
    """Waves that run together. `full` says that all lanes of all waves are active."""

    __slots__ = (
        "S",
        "SI",
        "SF",
        "V",
        "I",
        "F",
        "scc",
        "exec",
        "full",
        "wave",
        "workgroup",
        "pc",
        "waiting",
        "lds_base",
        "mode",
        "size",
        "local",
    )

    def __init__(
        self, scalars: np.ndarray, vectors: np.ndarray, scc: np.ndarray, wave: np.ndarray, workgroup: np.ndarray, local: np.ndarray
    ) -> None:
        self.wave = wave
        self.workgroup = workgroup
        self.local = local
        self.scc = scc
        self.pc = 0
        self.waiting = False
        self.mode = 0xF0
        self.size = len(wave)
        self.lds_base: np.ndarray | None = None
        self._bind(scalars, vectors)
        self.refresh()

    def _bind(self, scalars: np.ndarray, vectors: np.ndarray) -> None:
        self.S, self.V = scalars, vectors
        self.SI, self.SF = scalars.view(np.int32), scalars.view(np.float32)
        self.I, self.F = vectors.view(np.int32), vectors.view(np.float32)

    def refresh(self) -> None:
        """Recomputes the lane mask after EXEC changed."""
        self.exec = self.mask(EXEC)
        self.full = bool(self.exec.all())

    def mask(self, index: int) -> np.ndarray:
        """The 64-bit mask in scalar registers index, index+1 as [wave, lane] booleans."""
        pair = np.ascontiguousarray(self.S[index : index + 2].T)
        return np.unpackbits(pair.view(np.uint8), axis=1, bitorder="little").view(np.bool_)

    def put_mask(self, index: int, lanes: np.ndarray) -> None:
        """Writes [wave, lane] booleans to a pair of scalar registers."""
        pair = np.packbits(lanes, axis=1, bitorder="little").view(np.uint32)
        self.S[index] = pair[:, 0]
        self.S[index + 1] = pair[:, 1]
        if index == EXEC:
            self.refresh()

    def s64(self, index: int) -> np.ndarray:
        """Scalar pair as uint64 [wave]."""
        return self.S[index].astype(np.uint64) | (self.S[index + 1].astype(np.uint64) << np.uint64(32))

    def put_s64(self, index: int, value: np.ndarray) -> None:
        """Writes uint64 [wave] to a scalar pair."""
        self.S[index] = value & np.uint64(0xFFFFFFFF)
        self.S[index + 1] = value >> np.uint64(32)
        if index == EXEC:
            self.refresh()

    def take(self, which: np.ndarray) -> Group:
        """A group of some of the waves, with copies of their registers."""
        new = Group(
            np.ascontiguousarray(self.S[:, which]),
            np.ascontiguousarray(self.V[:, which]),
            self.scc[which].copy(),
            self.wave[which],
            self.workgroup[which],
            self.local[which],
        )
        new.pc, new.waiting, new.mode = self.pc, self.waiting, self.mode
        new.lds_base = None if self.lds_base is None else self.lds_base[which]
        return new

    def join(self, others: list[Group]) -> Group:
        """One group of this one's and the others' waves, which stand at the same place."""
        all_ = [self, *others]
        new = Group(
            np.concatenate([g.S for g in all_], 1),
            np.concatenate([g.V for g in all_], 1),
            np.concatenate([g.scc for g in all_]),
            np.concatenate([g.wave for g in all_]),
            np.concatenate([g.workgroup for g in all_]),
            np.concatenate([g.local for g in all_]),
        )
        new.pc, new.waiting, new.mode = self.pc, self.waiting, self.mode
        if self.lds_base is not None:
            new.lds_base = np.concatenate([g.lds_base for g in all_])
        return new
