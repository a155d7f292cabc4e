"""What older Tritons do wrong, or cannot do, for these targets: found by this suite, absent from newer ones.

A row must still be wrong in that way on a Triton below its version, so that the list cannot outlive its reason.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import triton

VERSION = tuple(int(n) for n in re.findall(r"\d+", triton.__version__)[:2])


class Known(NamedTuple):
    """Kernels by a regular expression on their names, and what is reported about them."""

    kernels: str
    arch: str
    right_since: tuple[int, int]
    problem: str
    reason: str


KNOWN = [
    Known(
        r"matmul_mixed_fp8",
        "gfx942",
        (3, 7),
        "1024 of 1024 differ",
        "the operands of the matrix instruction are exchanged (the result is computed transposed), the two formats in its name are not",
    ),
    Known(
        r"atomic_(add|max|min|and|or|xor)_(i32|i64|f32)",
        "gfx9",
        (3, 6),
        "race",
        "every lane also writes its old value to LDS offset 0 before the values are exchanged there, with no barrier between",
    ),
    Known(
        r"unary_sqrt_rn_f32",
        "gfx9",
        (3, 7),
        "got nan",
        "v_rsq_f32, which flushes denormals, gets a denormal that is not scaled up first: the root of 1e-40 is NaN",
    ),
    Known(r"matmul_bf16x3", "gfx9", (3, 6), "input_precision must be one of", "this precision does not exist yet"),
    Known(r"matmul_float8_\w+_nonk16", "gfx950", (3, 6), "PassManager::run failed", "the compiler fails"),
]


def known(name: str, arch: str) -> Known | None:
    """The row for a kernel on this Triton."""
    return next((k for k in KNOWN if k.right_since > VERSION and arch.startswith(k.arch) and re.fullmatch(k.kernels, name)), None)
