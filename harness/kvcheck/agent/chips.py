"""The chips that Triton can be asked to compile for: what its driver and kernels' launch code want to know of a card that is not there."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Chip:
    """One chip.

    Attributes:
        name: "gfx950" or "sm_90".
        backend: Triton's back end, "hip" or "cuda".
        warp: lanes of a wave or warp.
        units: compute units or multiprocessors of the card named in `card`.
        shared_bytes: LDS or shared memory a workgroup may have.
        card: the card whose numbers these are.
    """

    name: str
    backend: str
    warp: int
    units: int
    shared_bytes: int
    card: str

    @property
    def arch(self) -> str | int:
        """The name as Triton's target has it: "gfx950", or 90."""
        return self.name if self.backend == "hip" else int(self.name[3:])

    @property
    def index(self) -> int:
        """Triton keeps compiled kernels by device index: one index a chip, so that several can be there in one process."""
        return int(re.sub(r"\D", "", self.name))

    @property
    def capability(self) -> tuple[int, int]:
        """What torch.cuda.get_device_capability says of it."""
        number = re.sub(r"\D", "", self.name)
        return (int(number[0]), int(number[1])) if self.backend == "hip" else (int(number[:-1]), int(number[-1]))


CHIPS = {
    chip.name: chip
    for chip in (
        Chip("gfx90a", "hip", 64, 104, 65536, "MI250X, one die"),
        Chip("gfx942", "hip", 64, 304, 65536, "MI300X"),
        Chip("gfx950", "hip", 64, 256, 163840, "MI355X"),
        Chip("gfx1100", "hip", 32, 48, 65536, "Radeon PRO W7900"),
        Chip("gfx1201", "hip", 32, 32, 65536, "Radeon AI PRO R9700"),
        Chip("sm_80", "cuda", 32, 108, 166912, "A100"),
        Chip("sm_89", "cuda", 32, 142, 101376, "L40S"),
        Chip("sm_90", "cuda", 32, 132, 232448, "H100 SXM, H200"),
        Chip("sm_100", "cuda", 32, 148, 232448, "B200"),
        Chip("sm_120", "cuda", 32, 188, 101376, "RTX PRO 6000 Blackwell"),
    )
}
LIKE = {"hip": "gfx950", "cuda": "sm_90"}
"""Whose numbers stand in for a chip that is not in the table, if this Triton compiles for it."""


def chip(name: str) -> Chip:
    """A chip by name; one that is not in the table gets the numbers of one that is.

    Raises:
        ValueError: a name that no chip can have.
    """
    if name in CHIPS:
        return CHIPS[name]
    if not re.fullmatch(r"gfx[0-9a-f]{3,4}|sm_\d{2,3}", name):
        raise ValueError(f"no chip is called {name!r}: expected gfxNNN or sm_NN")
    backend = "hip" if name.startswith("gfx") else "cuda"
    like = CHIPS[LIKE[backend]]
    warp = 32 if re.match(r"gfx1\d\d\d|sm_", name) else 64
    return Chip(name, backend, warp, like.units, like.shared_bytes, f"unknown; numbers of {like.card}")
