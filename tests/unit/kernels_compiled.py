"""Run by test_kernels_compile.py in a process of its own: compiles our Triton kernels for one target without any GPU.

    python kernels_compiled.py BACKEND ARCH WARP FP8

Prints one JSON object a kernel: its matrix instructions, how many single bytes it loads at a time, shared memory.
"""

from __future__ import annotations

import json
import sys

from triton import compile as compile_
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kvcheck.agent.kernels import paged_mqa_logits, topk_per_row

BACKEND, ARCH, WARP, FP8 = sys.argv[1:]
TARGET = GPUTarget(BACKEND, int(ARCH) if ARCH.isdigit() else ARCH, int(WARP))
POINTERS = {
    "scale_ptr": "*fp32",
    "weights_ptr": "*fp32",
    "lens_ptr": "*i32",
    "table_ptr": "*i32",
    "out_ptr": "*fp32",
}
MATRIX = ("mfma", "wmma", "wgmma.mma", "mma.sync")
BYTE_LOADS = ("global_load_ubyte", "global_load_u8", "buffer_load_ubyte", "ld.global.b8", "ld.global.u8")


def compiled(kernel, types, constants, multiples_of_16, num_warps):
    """What became of a kernel."""
    names = kernel.arg_names
    signature = {name: "constexpr" if name in constants else types.get(name, "i32") for name in names}
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in (*types, *multiples_of_16)}
    built = compile_(ASTSource(kernel, signature, constants, attributes), target=TARGET, options={"num_warps": num_warps})
    words = built.asm["amdgcn" if BACKEND == "hip" else "ptx"].split()
    return {
        "matrix": sorted({word for word in words if any(name in word for name in MATRIX)}),
        "byte_loads": sum(word in BYTE_LOADS for word in words),
        "shared": built.metadata.shared,
    }


def logits(heads, dim, longest, from_bytes=False, **constants):
    """The logits kernel as its wrapper launches it, with arguments that are 1 as constants."""
    constants.update(paged_mqa_logits.tiles(heads, dim, longest, interpreted=False))
    constants = {"PER_ROW": False, "FROM_BYTES": from_bytes, "TWO_TO_BIAS": 256.0, **constants}
    codes = "*u8" if from_bytes else f"*{FP8}"
    types = {"q_ptr": codes, "cache_ptr": codes, **POINTERS}
    return compiled(paged_mqa_logits._paged_mqa_logits, types, constants, ("head_dim",), 4)


def topk(**constants):
    """The top-k kernel as its wrapper launches it."""
    constants = {"PER_ROW": False, "LANES": 4096, "OUT_LANES": 1024, **constants}
    return compiled(topk_per_row._topk_per_row, {"logits_ptr": "*fp32", "lens_ptr": "*i32", "out_ptr": "*i32"}, constants, (), 8)


if __name__ == "__main__":
    found = {
        "logits": logits(64, 128, 4096),
        "from_bytes": logits(64, 128, 4096, from_bytes=True),
        "page_of_one": logits(32, 128, 4096, PER_ROW=True, next_n=1, block_size=1, rows=1, table_stride=1),
        "smallest": logits(1, 16, 1, num_heads=1, next_n=1),
        "largest": logits(1024, 1024, 1 << 24),
        "topk": topk(),
        "topk_of_one": topk(topk=1, next_n=1, logits_stride=1, out_stride=1, LANES=16, OUT_LANES=1),
    }
    print(json.dumps(found))
