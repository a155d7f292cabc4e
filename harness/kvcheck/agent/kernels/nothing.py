"""The kernel that does nothing: whether Triton compiles for a chip at all."""

from __future__ import annotations

import torch
import triton


@triton.jit
def _nothing(pointer):
    pass


def check(arch: str) -> None:
    """Launches it on whatever takes Triton's launches.

    Args:
        arch: the chip that stands for, for the message.

    Raises:
        ValueError: Triton does not compile for it.
    """
    try:
        _nothing[(1,)](torch.empty(1))
    except Exception as error:
        raise ValueError(f"Triton {triton.__version__} does not compile for {arch}: {type(error).__name__}: {error}") from error
