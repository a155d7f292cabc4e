"""The words that give a container the host's accelerators."""

from __future__ import annotations

import grp
import os
from collections.abc import Callable

GROUPS = ("video", "render")
"""Groups that own ROCm's device files. They are given by number: an image need not know their names."""

CHOOSE = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")
"""Variables by which the user chose cards; they go along into a container."""


def flags(engine: str, device: str = "auto", there: Callable[[str], bool] = os.path.exists, root: bool | None = None) -> list[str]:
    """What an engine's command line needs for this host's devices.

    Args:
        engine: docker, podman, apptainer or singularity.
        device: of the cases; cpu and emulated ones need none.
        there: whether a path exists on the host.
        root: whether the engine runs with root's rights; None asks the system.

    Returns:
        words: AMD's and NVIDIA's, as the host has them; none on a host without either.
    """
    if device == "cpu" or device.endswith("-emulated"):
        return []
    rocm, nvidia = there("/dev/kfd"), there("/dev/nvidiactl")
    if engine in ("apptainer", "singularity"):
        return ["--rocm"] * rocm + ["--nv"] * nvidia
    words = []
    if rocm:
        rootless = engine == "podman" and not (os.geteuid() == 0 if root is None else root)
        groups = ["keep-groups"] if rootless else _groups()
        words += ["--device=/dev/kfd", "--device=/dev/dri", *(f"--group-add={group}" for group in groups)]
        words += ["--security-opt=seccomp=unconfined"]
    if nvidia:
        words += ["--device=nvidia.com/gpu=all"] if engine == "podman" else ["--gpus=all"]
    return words


def _groups() -> list[str]:
    """Numbers of the groups that own the device files: by name, and by the files themselves."""
    numbers = []
    for name in GROUPS:
        try:
            numbers.append(grp.getgrnam(name).gr_gid)
        except KeyError:
            continue
    for path in ("/dev/kfd", *(f"/dev/dri/{name}" for name in _listed("/dev/dri") if name.startswith("renderD"))):
        try:
            numbers.append(os.stat(path).st_gid)
        except OSError:
            continue
    return [str(number) for number in dict.fromkeys(numbers) if number != 0]


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
