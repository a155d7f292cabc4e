"""Random honest cases: small shapes, every op, every choice of values, tables and layouts, fresh seeds; nobody may be blamed.

Usage: python bench/honest.py --count N --seed S. Prints how many ran, and every case whose verdict is not `pass`, with its params.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from typing import Any

from kvcheck.agent import specs

SIZES = {
    "head_dim": (16, 32, 48), "index_head_dim": (16, 32), "num_heads": (1, 2, 3, 8), "index_heads": (1, 2, 5), "topk": (1, 4, 16, 40),
    "block_size": (1, 2, 7, 16), "page_size": (1, 2, 7, 16), "next_n": (1, 1, 2, 3), "batch": (1, 2, 3), "num_splits": (1, 2, 3, 5),
    "rows": (1, 3, 9), "tokens": (1, 7, 16, 40), "divisor": (448, 240, 224), "kv_scale": (0.5, 0.25, 3.0),
    "softmax_scale": (None, 0.1, 1.0),
    "block_stride": (None, None, 16, 20), "max_model_len": (None, None, 64, 70),
}  # fmt: skip
LENGTHS = (0, 1, 2, 7, 8, 15, 16, 17, 33, 60)
LARGEST = {"e4m3fn": (448, 224), "e4m3fnuz": (240, 224)}
LONG = 0.02
"""Share of the cases that are longer than a tile of 256."""


def draw(random_: random.Random, op: str) -> dict[str, Any]:
    """Params that fit an op; axes that carry no size are drawn from all of their choices."""
    while True:
        params = _drawn(random_, op)
        if not specs.check_params(op, params):
            return params


def _drawn(random_: random.Random, op: str) -> dict[str, Any]:
    axes = specs.axes(op)
    params = {}
    for name, axis in axes.items():
        if axis.type == "choice":
            params[name] = random_.choice([choice for choice in axis.choices if choice not in ("random_bytes", "graph")])
        else:
            params[name] = random_.choice(SIZES[name]) if name in SIZES else axis.default
    if "context_len" in axes:
        per_row = "next_n" in axes and op != "mla_decode" and random_.random() < 0.2
        longest = (*LENGTHS, 257, 300) if random_.random() < LONG else LENGTHS
        least = params.get("next_n", 1)
        one = lambda: random_.choice([length for length in longest if length == 0 or length >= least])  # noqa: E731
        if per_row and op != "indexer_mla_decode":
            params["context_len"] = [[one() for _ in range(params["next_n"])] for _ in range(params["batch"])]
        else:
            params["context_len"] = [one() for _ in range(params["batch"])]
    return _fitted(random_, op, params)


def _fitted(random_: random.Random, op: str, params: dict[str, Any]) -> dict[str, Any]:
    """What the ops ask of several axes together."""
    if op == "block_table":
        state, pages = random_.choice((1, 2, 4)), random_.choice((1, 2, 3))
        storage = state * pages
        kernel = random_.choice((storage, storage * 2, *([state] if pages > 1 else [])))
        manager = max(kernel, storage) * random_.choice((1, 2, 3))
        params.update(tokens_per_state=state, storage_block_size=storage, kernel_block_size=kernel, manager_block_size=manager)
        if params["block_table"] == "past_2_31" and 1 in (storage, kernel):
            params["block_table"] = "shuffled"  # ids of blocks of one token would not be 32-bit numbers
    if op == "mla_metadata":
        params["block_size"] = params["page_size"] * random_.choice((1, 2, 4))
    if op == "index_k_cache_write":
        params["divisor"] = random_.choice(LARGEST["e4m3fnuz" if params["kv_dtype"] == "e4m3fnuz" else "e4m3fn"])
    if params.get("layout") == "shuffled":
        params["block_size"] = 16
    if op == "mla_decode":
        wide = params["kv_format"] == "fp8_656"
        coded = params["values"].startswith("coded")
        params["head_dim"] = 576 if wide else random_.choice((80, 96, 144) if coded else (32, 48, 96))
        params["head_dim_v"] = 512 if wide else random_.choice([dim for dim in (16, 32, 80) if dim <= params["head_dim"]])
        if coded:
            params.update(kv_scale=0.5, head_dim_v=params["head_dim_v"] if wide else 80)
            if params["block_table"] == "shared_prefix":  # the code tells the requests apart
                params["block_table"] = "shuffled"
        if params["selection"] != "dense":
            params.update(page_size=1, next_n=1)
    if op == "topk_slots" and (params["positions"], params["block_table"]) == ("past_context", "wide_garbage"):
        params["block_table"] = "wide_zero"  # a slot of the garbage would not be a 32-bit number
    if op == "indexer_mla_decode":
        params.update(head_dim=96, head_dim_v=80)
    return params


def run(count: int, seed: int, provider: str = "torch_eager", report: Any = None) -> dict[str, Any]:
    """Judges random cases in this process.

    Args:
        count: cases.
        seed: of everything that is drawn.
        provider: an honest one.
        report: called with every odd row, and with how far it is now and then, or None.

    Returns:
        found: count, seed, verdicts by op, blamed and unjudged rows with their params, seconds.
    """
    import torch

    from kvcheck.agent import main

    torch.set_num_threads(1)
    runner = main.Runner("cpu", {"type": "cpu", "arch": "cpu", "name": "cpu"})
    random_, begun = random.Random(seed), time.monotonic()
    verdicts: Counter[str] = Counter()
    odd: list[dict[str, Any]] = []
    for number in range(count):
        op = random_.choice(specs.names("ops"))
        message = {"op": op, "provider": provider, "params": draw(random_, op), "seed": random_.randrange(1 << 30)}
        try:
            row = runner.run_case(message, lambda phase: None)
        except Exception as error:  # the harness's own fault, to be told with the case
            row = {"verdict": "harness_error", "message": f"{type(error).__name__}: {error}"}
        verdicts[f"{op} {row['verdict']}"] += 1
        if row["verdict"] != "pass":
            odd.append({"verdict": row["verdict"], "message": row["message"], **message})
            if report:
                report(odd[-1])
        if report and number % 1000 == 999:
            report({"ran": number + 1, "seconds": round(time.monotonic() - begun), "odd": len(odd)})
    seconds = round(time.monotonic() - begun, 1)
    return {"count": count, "seed": seed, "verdicts": dict(sorted(verdicts.items())), "odd": odd, "seconds": seconds}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found = run(options.count, options.seed, report=lambda line: print(json.dumps(line), flush=True))
    print(json.dumps(found["verdicts"], indent=1))
    print(f"{found['count']} cases, seed {found['seed']}, {found['seconds']} s, {len(found['odd'])} without a pass")
