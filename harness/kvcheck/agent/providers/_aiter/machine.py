"""What machine this is, and the plain import of an installed aiter on ROCm."""

from __future__ import annotations

import importlib
import os
import types
from typing import Any

import torch

from kvcheck.agent.kernels import target
from kvcheck.agent.protocol import Unsupported
from kvcheck.agent.providers._aiter.shim import ARCH, CU_COUNT, Machine
from kvcheck.agent.providers._aiter.source import Source


def ask(device: torch.device) -> Machine:
    """What kernels are compiled for on a device; stand-in answers for aiter where that is no AMD card.

    Raises:
        Unsupported: a CPU where Triton neither interprets nor compiles.
    """
    found = target.current(device)
    if found.backend == "hip":
        return Machine(found.arch, found.compute_units, "hip", rocm=found.rocm)
    if found.backend == "cuda":
        return Machine(ARCH, found.compute_units, "cuda")
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise Unsupported("on a CPU aiter's kernels need TRITON_INTERPRET=1 before triton is imported, or an emulated device")
    return Machine(ARCH, CU_COUNT)


def import_installed(source: Source) -> tuple[types.ModuleType, Any]:
    """The installed package as its users import it, for ROCm.

    Raises:
        Unsupported: the import fails; an environment that does not work is no evidence against a kernel.
    """
    try:
        package = importlib.import_module("aiter")
        return importlib.import_module(source.module()), package.dtypes
    except Exception as error:
        raise Unsupported(f"{source.name()} does not import: {type(error).__name__}: {error}") from error
