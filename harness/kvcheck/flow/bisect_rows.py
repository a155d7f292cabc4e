"""What a row says to a bisect: a pass, a failure with its identity, or nothing. What is not the kernel's doing says nothing."""

from __future__ import annotations

import re
from typing import Any

from kvcheck.agent.protocol import NOT_JUDGED
from kvcheck.report.words.clean import line
from kvcheck.search.bisect_evidence import FAIL, PASS, SILENT, Result

SHARE = r"^(?:in \d+ of \d+ new processes: )?"
"""What stands before a message where a case was run in several processes."""

NOT_THE_KERNEL = (
    ("it could not be imported", re.compile(SHARE + r"(?:ImportError|ModuleNotFoundError)\b")),
    ("a library that it needs could not be loaded", re.compile(r"cannot open shared object file|undefined symbol:")),
    (
        "it asked for the network",
        re.compile(
            r"Could not resolve host|Name or service not known|Temporary failure in name resolution|nodename nor servname|"
            r"Network is unreachable|No route to host|urlopen error|Max retries exceeded|Failed to establish a new connection|"
            r"ConnectionRefusedError|Connection refused|Could not connect to server|unable to access 'https?://"
        ),
    ),
    (
        "it could not be built",
        re.compile(
            r"Error building extension|ninja: (?:build stopped|error)|CMake Error|Failed to build|"
            r"(?:command|Command) .{0,400}\b(?:hipcc|nvcc|ninja|cmake|make|g\+\+|clang\+\+)\b.{0,4000}(?:exit status|exit code|failed)",
            re.DOTALL,
        ),
    ),
    (
        "it found no GPU",
        re.compile(
            r"No (?:HIP|CUDA) GPUs are available|no (?:CUDA|ROCm|HIP)-capable device|Found no NVIDIA driver|"
            r"Torch not compiled with (?:CUDA|ROCm)|hipErrorNoDevice|driver version is insufficient|No such device: /dev/kfd"
        ),
    ),
    ("it was killed from outside, or the system was out of memory", re.compile(SHARE + r"SIGKILL\b")),
)
"""Crashes and hangs that show that a kernel could not be tried, by what their message says."""


def result(row: dict[str, Any]) -> Result:
    """What one row says.

    Args:
        row: as an executor answers it; `phase` is the phase in which its agent ended, where it did.
    """
    verdict, message = row["verdict"], str(row.get("message") or "")
    if verdict == "pass":
        return Result(PASS)
    first = line(message.partition("\n")[0], 300)
    if verdict in NOT_JUDGED:
        return Result(SILENT, reason=f"{verdict}: {first}" if first else verdict)
    why = _not_the_kernel(verdict, message, row.get("phase"))
    return Result(SILENT, reason=f"{why}: {first}") if why else Result(FAIL, identity(row))


def identity(row: dict[str, Any]) -> tuple[str, str, str]:
    """Verdict, output and check; a crash's check is its exception or signal, as different ones are different bugs."""
    where = row.get("first_bad") or {}
    check = row.get("check") or ""
    if row["verdict"] == "crash":
        named = re.search(SHARE + r"([A-Za-z_][\w.]*)(?= |:|$)", str(row.get("message") or ""))
        check = named[1] if named and named[1] != "the" else "exit"
    return row["verdict"], line(row.get("output") or where.get("output") or "", 80), line(check, 80)


def _not_the_kernel(verdict: str, message: str, phase: str | None) -> str | None:
    if verdict not in ("crash", "timeout"):
        return None
    if phase == "load":
        return "its provider could not be loaded"
    why = next((why for why, pattern in NOT_THE_KERNEL if pattern.search(message)), None)
    if why is None and verdict == "timeout" and phase == "compile":
        return "its kernels were not compiled in time"
    return why
