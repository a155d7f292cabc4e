"""Compiles and runs the suite for one target in a process of its own, and prints one JSON line a kernel.

A process of its own, because Triton reads TRITON_INTERPRET when it is imported, and other tests set it.

    python -m suite.runner gfx950 [MODULE ...]
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import traceback

import torch

from kvcheck.agent import emulator

from .known import known

MODULES = ("elementwise", "reductions", "structure", "matrix", "planted")
RELATIVE_TO_LARGEST = ("matmul", "attention", "dot_scaled", "sum", "cum", "layernorm")
"""Kernels that sum many terms: their tolerance is relative to the largest result, not to each."""


def difference(name: str, got: torch.Tensor, want: torch.Tensor, tolerance: float) -> str | None:
    """None when the results agree (NaN with NaN), else a sentence."""
    a, b = got.double(), want.double()
    finite = b[b.isfinite()].abs()
    size = torch.clamp(b.abs(), min=float(finite.max()) if finite.numel() and any(k in name for k in RELATIVE_TO_LARGEST) else 1.0)
    good = (a == b) | (a.isnan() & b.isnan()) | ((a - b).abs() <= tolerance * size)
    if good.all():
        return None
    at = tuple((~good).nonzero()[0].tolist())
    return f"{int((~good).sum())} of {good.numel()} differ, first at {list(at)}: got {got[at].item()}, expected {want[at].item()}"


def main(arch: str, modules: tuple[str, ...]) -> None:
    with emulator.install(arch) as device:
        for module in modules:
            for name, run in importlib.import_module(f"{__package__}.{module}").cases(arch):
                device.findings.clear()
                device.statistics.clear()
                started, problems = time.perf_counter(), []
                try:
                    for label, got, want, tolerance in run():
                        sentence = difference(name, got, want, tolerance)
                        if sentence:
                            problems.append(f"{label}: {sentence}")
                except Exception:
                    problems.append(traceback.format_exc()[-1500:])
                problems += [str(f) for f in device.findings]
                expected = known(name, arch)
                if expected and any(expected.problem in p for p in problems):
                    problems = []
                elif expected:
                    problems.append(f"no longer so: {expected.reason}")
                count = sum(s["wave_instructions"] for s in device.statistics)
                print(
                    json.dumps({"name": name, "problems": problems, "wave_instructions": count, "seconds": time.perf_counter() - started}),
                    flush=True,
                )


if __name__ == "__main__":
    main(sys.argv[1], tuple(sys.argv[2:]) or MODULES)
