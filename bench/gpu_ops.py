"""Our own Triton kernel of every op on the GPU that torch sees, eager and replayed from a graph: a Markdown table of verdicts and ratios.

Usage: python bench/gpu_ops.py
"""

from __future__ import annotations

import torch

from kvcheck.agent import environment, main, specs

HEADS = (16, 32, 64, 128)
LONG = {"context_len": [65536, 0, 2049], "batch": 3, "next_n": 2}
CASES = [
    *(("paged_mqa_logits", {**LONG, "num_heads": heads, "block_size": 64}) for heads in HEADS),
    *(("mqa_logits", {"rows": 256, "tokens": 65536, "num_heads": heads}) for heads in HEADS),
    *(("mla_decode", {**LONG, "num_heads": heads, "page_size": 64, "num_splits": 16}) for heads in HEADS),
    ("mla_decode", {"context_len": 65536, "kv_format": "e4m3fn", "num_heads": 16, "num_splits": 16}),
    ("mla_decode", {"context_len": 65536, "kv_format": "fp8_656", "num_heads": 16, "num_splits": 16}),
    ("index_k_cache_write", {"tokens": 65536}),
    ("index_k_cache_gather", {"context_len": [65536, 0]}),
    ("topk_per_row", LONG),
    ("topk_slots", {"context_len": 65536, "rows": 256}),
    ("block_table", {"context_len": [65536, 0]}),
    ("mla_metadata", {"context_len": [65536, 0, 1], "batch": 3}),
]


def run() -> None:
    """Prints the table, and a line for every case that does not pass."""
    if not torch.cuda.is_available():
        print("skipped: needs a GPU")
        return
    device = torch.device("cuda", 0)
    runner = main.Runner(device, environment.collect(device)["device"])
    print("| op | case | verdict | largest ratio, model | kernel, eager | graph's replay |")
    print("|---|---|---|---|---|---|")
    for op, params in CASES:
        defaults = {name: axis.default for name, axis in specs.axes(op).items()}
        rows = {}
        for launch in ("eager", "graph"):
            request = {"op": op, "provider": "triton", "params": {**defaults, **params, "launch": launch}, "seed": 7, "repeat": 3}
            rows[launch] = runner.run_case(request, lambda phase: None)
        eager, graph = rows.values()
        ratio = eager["metrics"].get("max_bound_ratio")
        shown = "bit for bit" if ratio is None else f"{ratio:.3g}, {eager['precision']}"
        case = ", ".join(f"{name} {value}" for name, value in params.items())
        print(f"| {op} | {case} | {eager['verdict']} | {shown} | {eager['timing']['kernel_ms']:.3g} ms | {graph['verdict']} |", flush=True)
        for row in rows.values():
            if row["verdict"] != "pass":
                print(f"|  | {row['message'][:300]} | | | | |")


if __name__ == "__main__":
    run()
