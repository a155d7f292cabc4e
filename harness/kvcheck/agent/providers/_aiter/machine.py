"""What machine this is, and the plain import of an installed aiter on ROCm."""

from __future__ import annotations

import importlib
import os
import types
from typing import Any

import torch

from kvcheck.agent.protocol import Unsupported
from kvcheck.agent.providers._aiter.shim import ARCH, CU_COUNT, Machine
from kvcheck.agent.providers._aiter.source import Source


def ask(device: torch.device) -> Machine:
    """The device's architecture and compute units; the stand-in values on a CPU, where Triton's interpreter must be on.

    Raises:
        Unsupported: a CPU without TRITON_INTERPRET=1 set before Triton was imported.
    """
    if device.type == "cpu":
        if os.environ.get("TRITON_INTERPRET") != "1":
            raise Unsupported("on a CPU aiter's kernels need TRITON_INTERPRET=1 before triton is imported")
        return Machine(ARCH, CU_COUNT)
    properties = torch.cuda.get_device_properties(device)
    if torch.version.hip is None:
        return Machine(ARCH, properties.multi_processor_count)
    return Machine(properties.gcnArchName.partition(":")[0], properties.multi_processor_count, rocm=True)


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
