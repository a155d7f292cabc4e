"""Who started a container: an identity that outlives the process, so that a dead kvcheck's containers can be told from a live one's."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

LABEL = "kvcheck.owner"
"""Label of every container that kvcheck starts; its value is an identity."""


def identity(pid: int | None = None) -> str:
    """MACHINE/BOOT/NAMESPACE/PID/STARTED of a process on this machine; no two processes ever share one."""
    pid = pid or os.getpid()
    return "/".join((_machine(), _boot(), _namespace(), str(pid), _started(pid) or "0"))


def is_dead(owner: str) -> bool:
    """Whether the process of an identity is known to be gone.

    Args:
        owner: what `identity` gave, perhaps on another machine or in another container.

    Returns:
        dead: False whenever that cannot be told from here.
    """
    parts = owner.split("/")
    if len(parts) != 5 or parts[0] != _machine() or not parts[3].isdigit():
        return False
    _, boot, namespace, pid, started = parts
    if boot != _boot():
        return True  # the machine was started anew since
    return namespace == _namespace() and _started(int(pid)) != started


def _machine() -> str:
    """This machine, without its name: labels and command lines end up in reports."""
    return hashlib.sha256(os.uname().nodename.encode()).hexdigest()[:12]


def _boot() -> str:
    return _read("/proc/sys/kernel/random/boot_id").strip() or "unknown"


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        return "unknown"


def _started(pid: int) -> str | None:
    """When a process started, in clock ticks since the machine did; None when there is none."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] != "Z" else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""
