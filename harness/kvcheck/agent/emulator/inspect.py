"""What the compiler made of a kernel: registers, spills, LDS, occupancy, matrix instructions, code size.

Reads the assembly text only, and takes what it finds: an instruction that the emulator does not know is counted like any other.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

SIMDS = 4
LDS_BYTES = {"gfx90a": 65536, "gfx942": 65536, "gfx950": 163840}
WAVES_A_SIMD = 8
VECTOR_REGISTERS = 512
MATRIX = ("v_mfma", "v_smfmac", "v_wmma", "v_swmmac")

_BODY = r"^{name}:.*?^\.Lfunc_end\d+:"
_INSTRUCTION = re.compile(r"^\s+([a-z][a-z0-9_]*)(?=\s|$)", re.M)
_COMMENT = re.compile(r"^; (\w+)\s*[:=]\s*(\d+)", re.M)
_METADATA = re.compile(r"^\s+\.(\w+_(?:count|size)):\s+(\d+)\s*$", re.M)


def occupancy(arch: str, vgprs: int, lds: int, waves: int) -> int | None:
    """Waves that fit on a SIMD at once: limited by vector registers (512 a lane, in eights), by LDS, and by 8.

    Args:
        arch: gfx90a, gfx942 or gfx950; another has other limits.
        vgprs: vector and accumulator registers of a wave together.
        lds: bytes of LDS of a workgroup.
        waves: waves of a workgroup.

    Returns:
        waves: or None for another arch.
    """
    if arch not in LDS_BYTES:
        return None
    by_registers = VECTOR_REGISTERS // max(8, (vgprs + 7) // 8 * 8)
    limit = min(WAVES_A_SIMD, by_registers)
    if lds:
        limit = min(limit, max(1, LDS_BYTES[arch] // lds * waves // SIMDS))
    return limit


def summary(asm: str, num_warps: int, shared: int) -> dict[str, Any]:
    """The figures of one compiled kernel.

    Args:
        asm: `kernel.asm["amdgcn"]`.
        num_warps: `kernel.metadata.num_warps`.
        shared: `kernel.metadata.shared`, bytes of LDS given at launch.

    Returns:
        figures: kernel, arch, vgprs (vector), agprs (accumulator), sgprs, vgpr_spills, sgpr_spills, scratch_bytes, lds_bytes, occupancy
            (waves a SIMD), code_bytes, instructions, matrix {mnemonic: count}, mnemonics {mnemonic: count}; None where the text does
            not say.
    """
    arch = _first(r'\.amdgcn_target "[^"]*-(gfx\w+)', asm) or ""
    name = _first(r"\.type\s+([\w$.]+),@function", asm) or ""
    body = re.search(_BODY.format(name=re.escape(name)), asm, re.M | re.S)
    names = Counter(_INSTRUCTION.findall(body.group(0))) if body else Counter()
    info = {key: int(value) for pattern in (_COMMENT, _METADATA) for key, value in pattern.findall(asm)}
    vgprs, agprs = info.get("NumVgprs"), info.get("NumAgprs", 0)
    total = info.get("TotalNumVgprs", (vgprs or 0) + agprs)
    lds = shared + info.get("group_segment_fixed_size", 0)
    return {
        "kernel": name,
        "arch": arch,
        "vgprs": vgprs,
        "agprs": agprs,
        "sgprs": info.get("TotalNumSgprs"),
        "vgpr_spills": info.get("vgpr_spill_count"),
        "sgpr_spills": info.get("sgpr_spill_count"),
        "scratch_bytes": info.get("private_segment_fixed_size"),
        "lds_bytes": lds,
        "occupancy": occupancy(arch, total, lds, num_warps),
        "code_bytes": info.get("codeLenInByte"),
        "instructions": names.total(),
        "matrix": {key: count for key, count in sorted(names.items()) if key.startswith(MATRIX)},
        "mnemonics": dict(sorted(names.items())),
    }


def _first(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text)
    return found.group(1) if found else None
