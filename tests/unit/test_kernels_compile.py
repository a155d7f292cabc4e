"""Our Triton kernels compile for CDNA3, CDNA4 and Hopper without any GPU, with the matrix instructions that they should have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("kernels_compiled.py")


@pytest.mark.parametrize(
    ("target", "native", "upcast", "shared"),
    [
        (("hip", "gfx942", "64", "fp8e4b8"), "fp8_fp8", "f16", 64 << 10),
        (("hip", "gfx950", "64", "fp8e4nv"), "f8f6f4", "f16", 160 << 10),
        (("cuda", "90", "32", "fp8e4nv"), "e4m3.e4m3", "f16.f16", 227 << 10),
    ],
    ids=["gfx942", "gfx950", "sm_90"],
)
def test_compiles(target, native, upcast, shared):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, str(PROGRAM), *target], capture_output=True, text=True, timeout=170, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert any(native in word for word in found["logits"]["matrix"]), found["logits"]
    assert any(upcast in word for word in found["from_bytes"]["matrix"]), found["from_bytes"]
    for name in ("page_of_one", "smallest", "largest"):
        assert found[name]["matrix"], name
    for name in ("topk", "topk_of_one"):
        assert not found[name]["matrix"], name
    for name, kernel in found.items():
        assert kernel["byte_loads"] == 0, f"{name}: keys are read a byte at a time"
        assert kernel["shared"] <= shared, (name, kernel)
