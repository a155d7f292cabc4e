"""Our Triton kernel of the paged logits against aiter's plain Triton kernels, on a GPU: whole provider calls, same inputs.

    python bench/kernel_speed.py --aiter DIR [--aiter DIR2]

Times are medians of CUDA events (triton.testing.do_bench) over a whole call as the serving stack makes it: aiter:fused
writes the logits; aiter:stage1 fills and sums its per-head partials, which is part of how it is called. The inputs of a
large case exceed the card's cache.
"""

from __future__ import annotations

import argparse
import json

import torch
import triton
from kvcheck.agent import assemble, environment, main, specs
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.ops import paged_mqa_logits

SHAPES = [(1, 4096), (1, 65536), (8, 16384), (8, 65536), (32, 8192)]


def plain_alloc(shape, dtype, fill=None):
    """Scratch without guards: what a serving stack allocates."""
    return torch.empty(shape, dtype=dtype, device="cuda") if fill is None else torch.full(shape, fill, dtype=dtype, device="cuda")


def _short(name):
    """aiter:fused@DIR without the path."""
    head, at, folder = name.partition("@")
    return head + at + folder.rstrip("/").rsplit("/", 1)[-1]


def main_() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--aiter", action="append", default=[])
    parser.add_argument("--block-size", type=int, default=1)
    options = parser.parse_args()
    device = torch.device("cuda", 0)
    facts = environment.collect(device)["device"]
    names = ["triton"] + [f"aiter:{variant}@{folder}" for folder in options.aiter for variant in ("fused", "stage1")]
    print(json.dumps({"device": facts["name"], "torch": torch.__version__, "triton": triton.__version__, "block_size": options.block_size}))
    for heads in (32, 64):
        for batch, context_len in SHAPES:
            case = {name: axis.default for name, axis in specs.axes("paged_mqa_logits").items()}
            case.update(num_heads=heads, batch=batch, context_len=context_len, block_size=options.block_size)
            case = main.Runner(device, facts)._resolve({**case, "poison": "zero"})
            inputs = paged_mqa_logits.make_inputs(case, Generator(1))
            tensors = {name: tensor.to(device) for name, tensor in inputs.tensors.items()}
            out = torch.full((batch, inputs.scalars["max_model_len"]), float("-inf"), device=device)
            row = {"heads": heads, "batch": batch, "context_len": context_len}
            for name in names:
                try:
                    function = assemble.provider(name, device).function("paged_mqa_logits")
                    call = lambda function=function: function(**tensors, **inputs.scalars, out=out, alloc=plain_alloc)  # noqa: E731, B023
                    call()
                    row[_short(name)] = round(triton.testing.do_bench(call, return_mode="median"), 4)
                except Exception as error:
                    row[_short(name)] = f"{type(error).__name__}: {str(error)[:120]}"
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main_()
