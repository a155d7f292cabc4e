"""How fast machine code of gfx942 and gfx950 is interpreted on this machine: 64 heads, one request, by tokens, processes and kernel.

    python bench/emulator_speed.py [--aiter DIR] [--repeat 3] [--tokens 4096 --tokens 65536]

Our Triton kernel of the paged logits and, with --aiter, aiter's plain Triton stage1 and its Gluon kernels of block size 1 (fused) and
block size 64 (preshuffle), launched by aiter's own launch code. The whole sanitizer is on and inputs are protected. Seconds are those
of the launch in the emulator, the least of the repeats, without compiling and decoding; beside them the processor's own, which other
work on the machine changes less. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.pop("TRITON_INTERPRET", None)
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import triton

from kvcheck.agent import emulator
from kvcheck.agent.kernels import paged_mqa_logits as own

HEADS, DIM = 64, 128
DTYPES = {"gfx942": ("e4m3fnuz", torch.float8_e4m3fnuz), "gfx950": ("e4m3fn", torch.float8_e4m3fn)}
CORES = (1, 2)


def inputs(arch: str, tokens: int, block_size: int) -> tuple[torch.Tensor, ...]:
    """Query, cache, weights, length and table of one request whose pages are shuffled."""
    g = torch.Generator().manual_seed(1)
    fp8 = DTYPES[arch][1]
    pages = -(-tokens // block_size)
    q = torch.randn(1, 1, HEADS, DIM, generator=g).to(fp8)
    keys = torch.randn(pages, block_size * DIM, generator=g).to(fp8).view(torch.uint8)
    scales = torch.rand(pages, block_size, generator=g).view(torch.uint8)
    cache = torch.cat([keys, scales], 1).view(pages, block_size, 1, DIM + 4)
    table = torch.randperm(pages, generator=g).to(torch.int32)[None]
    return q, cache, torch.randn(1, HEADS, generator=g), torch.tensor([tokens], dtype=torch.int32), table


def own_kernel(arch: str, tokens: int) -> tuple[tuple[torch.Tensor, ...], Callable[[], torch.Tensor]]:
    """Our Triton kernel, block size 64."""
    tensors = inputs(arch, tokens, 64)

    def call() -> torch.Tensor:
        out = torch.full((1, tokens), float("-inf"))
        own.paged_mqa_logits(*tensors, max_model_len=tokens, block_size=64, kv_dtype=DTYPES[arch][0], out=out)
        return out

    return tensors, call


def aiter_kernel(module: Any, variant: str) -> Callable[[str, int], Any]:
    """One of aiter's kernels."""

    def prepare(arch: str, tokens: int) -> tuple[tuple[torch.Tensor, ...], Callable[[], torch.Tensor]]:
        block_size = 64 if variant == "preshuffle" else 1
        q, cache, weights, lengths, table = tensors = inputs(arch, tokens, block_size)

        def call() -> torch.Tensor:
            if variant == "stage1":
                out = torch.full((HEADS, 1, tokens), float("-inf"))
                module.deepgemm_fp8_paged_mqa_logits_stage1(q, cache.view(q.dtype), weights, out, lengths, table, tokens)
            else:
                out = torch.full((1, tokens), float("-inf"))
                options = {"Preshuffle": variant == "preshuffle", "KVBlockSize": block_size}
                module.deepgemm_fp8_paged_mqa_logits(q, cache, weights, out, lengths, table, tokens, **options)
            return out

        return tensors, call

    return prepare


def load_aiter(folder: Path, arch: str) -> Any:
    """aiter's launch code from a source folder, without its packages' own start-up, which builds extensions for the card present."""
    for name in [n for n in sys.modules if n.partition(".")[0] == "aiter"]:
        del sys.modules[name]
    names = ["aiter", "aiter.jit", "aiter.jit.utils", "aiter.utility", "aiter.ops", "aiter.ops.triton"]
    for name in [*names, "aiter.ops.triton.attention", "aiter.ops.triton.gluon"]:
        package = sys.modules[name] = types.ModuleType(name)
        package.__path__ = [str(folder.joinpath(*name.split(".")))]
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, package)
    chip = sys.modules["aiter.jit.utils.chip_info"] = types.ModuleType("aiter.jit.utils.chip_info")
    chip.get_gfx = chip.get_gfx_runtime = lambda: arch
    chip.get_cu_num = lambda: {"gfx942": 304, "gfx950": 256}[arch]
    dtypes = sys.modules["aiter.dtypes"] = sys.modules["aiter"].dtypes = types.ModuleType("aiter.dtypes")
    dtypes.fp8 = DTYPES[arch][1]
    import aiter.ops.triton.attention.pa_mqa_logits as module

    return module


def measure(arch: str, prepare: Any, tokens: int, repeat: int) -> dict[str, Any]:
    """The least seconds on each number of processes, of launches that all gave the same bytes and no finding."""
    row: dict[str, Any] = {}
    tensors, call = prepare(arch, tokens)
    device = emulator.driver.ACTIVE[-1]
    for tensor in tensors:
        device.protect(tensor)
    answers = {np.asarray(call()).tobytes()}
    for cores in CORES:
        device.cores, seconds, processor = cores, [], []
        for _ in range(repeat):
            device.statistics.clear()
            started = time.process_time()
            answers.add(np.asarray(call()).tobytes())
            (launch,) = device.statistics
            seconds.append(launch["seconds"])
            processor.append(time.process_time() - started)
        row[cores] = min(seconds)
        row.setdefault("processor", min(processor))
        row["waves"], row["processes"] = launch["wave_instructions"], launch["processes"]
    if len(answers) != 1 or device.findings:
        raise SystemExit(f"not one answer without a finding: {len(answers)} answers, {[str(f) for f in device.findings]}")
    device.forget()
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--aiter", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--tokens", type=int, action="append")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores ({platform.machine()}), load {load:.1f}; torch {torch.__version__}, triton {triton.__version__}\n")
    print("| kernel, 64 heads | target | tokens | wave-instructions | 1 core | of a processor | a second | 2 cores | a second |")
    print("|---|---|---|---|---|---|---|---|---|")
    for arch in DTYPES:
        with emulator.install(arch):
            kernels = {"own Triton, block size 64": own_kernel}
            if options.aiter:
                module = load_aiter(options.aiter, arch)
                kernels |= {f"aiter {name}": aiter_kernel(module, name) for name in ("stage1", "fused", "preshuffle")}
            for name, prepare in kernels.items():
                for tokens in options.tokens or (4096, 16384, 65536):
                    row = measure(arch, prepare, tokens, options.repeat)
                    one, two = (f"{row[n]:.2f} s | {row['waves'] / row[n] / 1e6:.2f} M" for n in CORES)
                    processor = f" | {row['processor']:.2f} s | "
                    times = f"{one.replace(' | ', processor)} | {two}"
                    print(f"| {name} | {arch} | {tokens:,} | {row['waves']:,} | {times} |", flush=True)
    print(f"\nload at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
