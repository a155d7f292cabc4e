"""What ptxas made of a kernel: registers, stack, spills, shared memory, matrix instructions and code size of a cubin.

Read with the cuobjdump that Triton brings; without it the figures are None, and matrix instructions are those of the PTX.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

MATRIX = re.compile(r"[HIDQBO]?G?MMA(?:\.|$)|UTC\w*MMA")
PTX_MATRIX = re.compile(r"^\s*(?:@\S+\s+)?((?:wgmma\.mma_async|mma\.sync|tcgen05\.mma)\S*)", re.M)
_SASS = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Za-z0-9_.]*)[^;]*;")
_USAGE = re.compile(r"(REG|STACK|SHARED|LOCAL):(\d+)")


def summary(cubin: bytes, ptx: str, shared: int) -> dict[str, Any]:
    """The figures of one compiled kernel.

    Args:
        cubin: `kernel.asm["cubin"]`.
        ptx: `kernel.asm["ptx"]`.
        shared: `kernel.metadata.shared`, bytes of shared memory given at launch.

    Returns:
        figures: the keys of `inspect.summary`: vgprs are registers a thread, scratch_bytes the stack frame, vgpr_spills loads and
            stores of local memory in the code, lds_bytes shared memory; agprs, sgprs and occupancy None.
    """
    usage, sass = _dump(cubin, "-res-usage"), _dump(cubin, "-sass")
    figures = {key: int(value) for key, value in _USAGE.findall(usage.partition("Function")[2])}
    names = Counter(_SASS.findall(sass))
    matrix = {key: count for key, count in sorted(names.items()) if MATRIX.match(key)}
    return {
        "vgprs": figures.get("REG"),
        "agprs": None,
        "sgprs": None,
        "vgpr_spills": sum(count for key, count in names.items() if key.startswith(("LDL", "STL"))) if names else None,
        "sgpr_spills": None,
        "scratch_bytes": figures["STACK"] + figures.get("LOCAL", 0) if "STACK" in figures else None,
        "lds_bytes": shared,
        "occupancy": None,
        "code_bytes": _text_bytes(cubin),
        "instructions": names.total() or None,
        "matrix": matrix if names else dict(sorted(Counter(PTX_MATRIX.findall(ptx)).items())),
    }


def _dump(cubin: bytes, option: str) -> str:
    tool = _tool()
    if tool is None:
        return ""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        try:
            return subprocess.run([tool, option, file.name], capture_output=True, text=True, timeout=60, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            return ""


def _tool() -> str | None:
    import triton

    path = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    return str(path) if path.is_file() else None


def _text_bytes(cubin: bytes) -> int | None:
    """Bytes of the sections called .text.*: a 64-bit little-endian ELF file."""
    if cubin[:5] != b"\x7fELF\x02":
        return None
    word = lambda at, size: int.from_bytes(cubin[at : at + size], "little")  # noqa: E731
    table, size, count, names = word(0x28, 8), word(0x3A, 2), word(0x3C, 2), word(0x3E, 2)
    strings = word(table + names * size + 0x18, 8)
    total = 0
    for section in range(table, table + count * size, size):
        start = strings + word(section, 4)
        if cubin[start : cubin.index(0, start)].startswith(b".text."):
            total += word(section + 0x20, 8)
    return total or None
