"""How torch was built, and which ROCm or CUDA it runs on: two builds of one version are two kernels' worlds."""

from __future__ import annotations

import os
import re
from typing import Any

from kvcheck.agent.environment.files import first

PARTS = {
    "hip_runtime": r"HIP Runtime\s+([\w.+-]+)",
    "miopen": r"MIOpen\s+([\w.+-]+)",
    "cuda_runtime": r"CUDA Runtime\s+([\w.+-]+)",
    "cudnn": r"CuDNN\s+([\w.+-]+)",
    "compiler": r"^\s*-\s*((?:GCC|clang|MSVC)\s+[\w.+-]+)",
    "type": r"BUILD_TYPE=(\w+)",
}
"""What torch says of its own build, by name."""


def torch_build() -> dict[str, Any]:
    """Commit, runtime versions, compiler and architectures of the torch that is imported; what it does not tell is left out."""
    import torch

    try:
        said = torch.__config__.show()
    except (AttributeError, RuntimeError):
        said = ""
    found = {name: match.group(1) for name, pattern in PARTS.items() if (match := re.search(pattern, said, re.MULTILINE))}
    found["git"] = getattr(torch.version, "git_version", None)
    found["debug"] = True if getattr(torch.version, "debug", False) else None
    found["archs"] = " ".join(torch.cuda.get_arch_list()) if torch.cuda.is_available() else None
    return {name: value for name, value in found.items() if value not in (None, "", "Unknown")}


def rocm() -> str | None:
    """The ROCm that is installed; where its own file does not tell, the one that torch or the image names."""
    import torch

    for file in ("/opt/rocm/.info/version", "/opt/rocm/.info/version-dev"):
        if version := first(file, r"(\S+)"):
            return version
    return getattr(torch.version, "rocm", None) or os.environ.get("ROCM_VERSION")
