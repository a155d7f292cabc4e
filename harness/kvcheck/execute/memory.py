"""How much memory there is to give to agents, and how many of them the machine carries."""

from __future__ import annotations

import os
from pathlib import Path

GIB = 1 << 30
AGENT = 2 * GIB
"""What an agent is reckoned at: torch, a provider, and a case of full size (64 heads, batch 8, 202,752 tokens)."""

LEAST = 4 * GIB
"""No agent is limited below this: address space is mapped well ahead of its use."""


def available() -> int:
    """Bytes that could be used now without pushing anything out: the machine's, or the control group's where that is less."""
    amounts = [amount for amount in (_machine(), _group()) if amount is not None]
    return min(amounts) if amounts else LEAST


def share(agents: int) -> int:
    """The memory limit of one of several agents, in bytes beyond start-up; KVCHECK_MEMORY_LIMIT overrides it, 0 is no limit."""
    given = os.environ.get("KVCHECK_MEMORY_LIMIT", "")
    if given.isdigit():
        return int(given)
    return max(LEAST, int(available() * 0.8) // max(agents, 1))


def cores() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_jobs(device_type: str) -> int:
    """How many cases are run at once unless the user says: one on a GPU, else up to four where memory carries them."""
    if device_type not in ("cpu", "emulated"):
        return 1
    return max(1, min(cores(), 4, available() // AGENT))


def room_for_another() -> bool:
    """Whether one more idle agent leaves at least as much as a busy one may need."""
    return available() >= 2 * AGENT


def _machine() -> int | None:
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _group() -> int | None:
    """What is left of the control group's limit (version 2, then 1); page cache counts as free."""
    for limit, usage, stat in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
            "/sys/fs/cgroup/memory/memory.stat",
        ),
    ):
        most, used = _read(limit).strip(), _read(usage).strip()
        if most.isdigit() and used.isdigit():
            cache = sum(int(row.split()[1]) for row in _read(stat).splitlines() if row.startswith("inactive_file "))
            return max(0, int(most) - int(used) + cache)
    return None


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
