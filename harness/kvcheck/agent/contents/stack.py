"""The ROCm or CUDA that an environment brings, from its own files or from packages."""

from __future__ import annotations

import os
import re
from typing import Any

from kvcheck.agent.contents.installed import normal
from kvcheck.agent.contents.reading import listed, text_of


def rocm(known: list[dict[str, Any]]) -> dict[str, Any]:
    """The ROCm that is installed: version, from, hip_runtime (the library's file name, which has the runtime's own version).

    Args:
        known: what `installed.distributions` found.
    """
    roots = [os.environ.get("ROCM_PATH") or "", "/opt/rocm", *(os.path.join("/opt", each) for each in listed("/opt") if "rocm-" in each)]
    for root in filter(None, roots):
        path = os.path.join(root, ".info", "version")
        if text_of(path).strip():
            runtime = os.path.basename(os.path.realpath(os.path.join(root, "lib", "libamdhip64.so")))
            return {"version": text_of(path).strip(), "from": path, "hip_runtime": runtime if ".so." in runtime else None}
    for entry in known:
        if normal(entry["name"]) in ("rocm-sdk-core", "rocm"):
            return {"version": entry["version"], "from": entry["metadata"], "hip_runtime": None}
    return {"version": None, "from": None, "hip_runtime": None}


def cuda(known: list[dict[str, Any]]) -> dict[str, Any]:
    """The CUDA that is installed: version, from.

    Args:
        known: what `installed.distributions` found.
    """
    path = "/usr/local/cuda/version.json"
    found = re.search(r'"cuda"\s*:\s*\{[^}]*"version"\s*:\s*"([^"]+)"', text_of(path))
    if found:
        return {"version": found.group(1), "from": path}
    for entry in known:
        if re.match(r"nvidia-cuda-runtime(-cu\d+)?$", normal(entry["name"])):
            return {"version": entry["version"], "from": entry["metadata"]}
    return {"version": None, "from": None}
