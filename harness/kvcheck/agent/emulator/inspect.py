"""What the compiler made of a kernel: registers, spills, LDS, occupancy, matrix instructions, code size. Reads the assembly text only."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .text import Text, parse

SIMDS = 4
LDS_BYTES = {"gfx942": 65536, "gfx950": 163840}
WAVES_A_SIMD = 8
VECTOR_REGISTERS = 512


def occupancy(arch: str, vgprs: int, lds: int, waves: int) -> int:
    """Waves that fit on a SIMD at once: limited by vector registers (512 a lane, in eights), by LDS, and by 8.

    Args:
        vgprs: vector and accumulator registers of a wave together
        lds: bytes of LDS of a workgroup
        waves: waves of a workgroup
    """
    by_registers = VECTOR_REGISTERS // max(8, (vgprs + 7) // 8 * 8)
    limit = min(WAVES_A_SIMD, by_registers)
    if lds:
        limit = min(limit, max(1, LDS_BYTES[arch] // lds * waves // SIMDS))
    return limit


def summary(asm: str | Text, num_warps: int, shared: int) -> dict[str, Any]:
    """The figures of one compiled kernel.

    Args:
        asm: `kernel.asm["amdgcn"]`, or the parsed text
        num_warps: `kernel.metadata.num_warps`
        shared: `kernel.metadata.shared`, bytes of LDS given at launch
    Returns:
        kernel, arch, vgprs (vector), agprs (accumulator), sgprs, vgpr_spills, sgpr_spills, scratch_bytes, lds_bytes, occupancy (waves a
        SIMD),
        code_bytes, instructions, matrix {mnemonic: count}, mnemonics {mnemonic: count}
    """
    text = asm if isinstance(asm, Text) else parse(asm)
    names = Counter(i.mnemonic for i in text.instructions)
    info, descriptor = text.info, text.descriptor
    vgprs, agprs = info.get("NumVgprs", 0), info.get("NumAgprs", 0)
    total = info.get("TotalNumVgprs", vgprs + agprs)
    lds = shared + descriptor.get("group_segment_fixed_size", 0)
    return {
        "kernel": text.name,
        "arch": text.arch,
        "vgprs": vgprs,
        "agprs": agprs,
        "sgprs": info.get("TotalNumSgprs", 0),
        "vgpr_spills": info.get("vgpr_spill_count", 0),
        "sgpr_spills": info.get("sgpr_spill_count", 0),
        "scratch_bytes": descriptor.get("private_segment_fixed_size", 0),
        "lds_bytes": lds,
        "occupancy": occupancy(text.arch, total, lds, num_warps),
        "code_bytes": info.get("codeLenInByte", 0),
        "instructions": len(text.instructions),
        "matrix": {k: n for k, n in sorted(names.items()) if k.startswith("v_mfma")},
        "mnemonics": dict(sorted(names.items())),
    }
