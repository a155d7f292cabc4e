"""Our Triton kernels compile for CDNA3, CDNA4 and Hopper without any GPU, with the matrix instructions that they should have."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json, sys, torch
import triton
from triton.backends.compiler import GPUTarget
from kvcheck.agent.kernels import paged_mqa_logits as logits, topk_per_row as topk

backend, arch, warp, fp8 = sys.argv[1:5]
target = GPUTarget(backend, int(arch) if arch.isdigit() else arch, int(warp))
kernel = logits._paged_mqa_logits
kinds = {"q_ptr": f"*{fp8}", "cache_ptr": f"*{fp8}", "scale_ptr": "*fp32", "weights_ptr": "*fp32", "lens_ptr": "*i32", "table_ptr": "*i32", "out_ptr": "*fp32"}
found = {}
for name, flags in {"rows": (False, False), "per_row": (True, False), "from_bytes": (False, True)}.items():
    constants = dict(PER_ROW=flags[0], FROM_BYTES=flags[1], TWO_TO_BIAS=256.0, HEADS=64, HEAD_TILES=1, DIM=128, TOKENS=128)
    types = {**kinds, **({"q_ptr": "*u8", "cache_ptr": "*u8"} if flags[1] else {})}
    signature = {n: types.get(n, "constexpr" if n in constants else "i32") for n in kernel.arg_names}
    built = triton.compile(triton.compiler.ASTSource(kernel, signature, constants), target=target, options={"num_warps": 4})
    found[name] = built.asm["amdgcn" if backend == "hip" else "ptx"]
kernel = topk._topk_per_row
constants = dict(PER_ROW=False, LANES=4096, OUT_LANES=1024)
signature = {n: {"logits_ptr": "*fp32", "lens_ptr": "*i32", "out_ptr": "*i32"}.get(n, "constexpr" if n in constants else "i32") for n in kernel.arg_names}
built = triton.compile(triton.compiler.ASTSource(kernel, signature, constants), target=target, options={"num_warps": 8})
found["topk"] = built.asm["amdgcn" if backend == "hip" else "ptx"]
print(json.dumps({name: [len(text), sorted({w for line in text.splitlines() for w in line.split()[:1] if "mfma" in w or "wgmma.mma" in w})] for name, text in found.items()}))
"""


@pytest.mark.parametrize(
    ("target", "native", "upcast"),
    [
        (("hip", "gfx942", "64", "fp8e4b8"), "fp8_fp8", "f16"),
        (("hip", "gfx950", "64", "fp8e4nv"), "f8f6f4", "f16"),
        (("cuda", "90", "32", "fp8e4nv"), "e4m3.e4m3", "f16.f16"),
    ],
)
def test_compiles(target, native, upcast):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", SCRIPT, *target], capture_output=True, text=True, timeout=170, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    built = json.loads(done.stdout)
    for name in ("rows", "per_row"):
        assert any(native in word for word in built[name][1]), built[name]
    assert any(upcast in word for word in built["from_bytes"][1]), built["from_bytes"]
    assert built["topk"][0] > 1000 and built["topk"][1] == []
