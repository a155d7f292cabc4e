"""Runs our own kernels of the indexer's ops over their choices on the GPU that torch sees, and prints a line an op.

Usage: python bench/gpu_indexer_ops.py
"""

from __future__ import annotations

import itertools
import time

import torch

from kvcheck.agent import environment, main, specs


def choices(op: str, axis: str) -> list[str]:
    """Every choice of an axis."""
    return sorted(specs.axes(op)[axis].choices)


def sweep(runner: main.Runner, op: str, **axes: list) -> None:
    """Judges the product of some axes, the others at their defaults."""
    defaults = {name: axis.default for name, axis in specs.axes(op).items()}
    begun, wrong, worst, sums = time.perf_counter(), [], 0.0, {"codes_differ": 0, "scales_differ": 0}
    points = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    for point in points:
        row = runner.run_case({"op": op, "provider": "triton", "params": defaults | point, "seed": 42}, lambda phase: None)
        worst = max(worst, row["metrics"].get("max_bound_ratio") or 0.0)
        sums = {name: count + row["metrics"].get(name, 0) for name, count in sums.items()}
        if row["verdict"] != "pass":
            wrong.append((point, row["verdict"], row["message"][:300]))
    took = f"last kernel {row['timing']['kernel_ms']} ms, {time.perf_counter() - begun:.0f} s"
    print(f"{op} {sorted(axes)}: {len(points) - len(wrong)} of {len(points)} pass, worst ratio {worst:.3g}, {sums}, {took}")
    for found in wrong[:4]:
        print("   ", *found, flush=True)


def run() -> None:
    """Every indexer op."""
    device = torch.device("cuda", 0)
    runner = main.Runner(device, environment.collect(device)["device"])
    logits, write, gather, slots = "mqa_logits", "index_k_cache_write", "index_k_cache_gather", "topk_slots"
    both = ["e4m3fn", "e4m3fnuz"]
    sweep(runner, logits, num_heads=[16, 32, 64, 128], kv_dtype=both, window=choices(logits, "window"), rows=[200], tokens=[1000])
    sweep(runner, logits, num_heads=[32, 64], values=choices(logits, "values"), scale=["decades"], rows=[64], tokens=[3000])
    sweep(runner, logits, num_heads=[64], rows=[1024], tokens=[16384], window=["causal"])
    formats = {"scale_format": ["fp32", "ue8m0"], "kv_dtype": both, "divisor": [448, 240, 224], "layout": ["block_flat", "shuffled"]}
    sweep(runner, write, values=choices(write, "values"), cache=["pitched"], **formats)
    sweep(runner, write, tokens=[1, 65536], slots=choices(write, "slots"), block_size=[1, 64])
    views = {"cache": choices(gather, "cache"), "table_stride": ["width", "wider"]}
    kinds = {"values": ["gaussian", "random_bytes"], "layout": ["block_flat", "shuffled"], "block_size": [16, 64]}
    sweep(runner, gather, context_len=[300, [65536, 0]], **views, **kinds)
    wide = {"block_stride": [None, 80], "pool": ["needed", "last"], "topk": [100, 2048], "table_stride": ["wider"]}
    sweep(runner, slots, positions=choices(slots, "positions"), **wide)
    sweep(runner, "paged_mqa_logits", num_heads=[32, 64], block_size=[1, 64], context_len=[3000], **views)


if __name__ == "__main__":
    run()
