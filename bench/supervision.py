"""What supervision adds to a case: the same honest cases through a warm agent, and in this process without one.

    python bench/supervision.py [--cases 60]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch
from kvcheck.agent.main import Runner
from kvcheck.cases.plan import plan
from kvcheck.execute.executor import Executor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(1)
    (case,) = plan(["smoke"], only=["smoke[context_len=64,block_size=16,next_n=1]@triton"]).cases
    case = type(case)(**{**case.__dict__, "provider": "torch_eager"})
    runner = Runner("cpu", {"type": "cpu", "arch": "cpu"})
    alone, supervised = [], []
    with Executor("cpu", jobs=1) as executor:
        executor.submit(case).result()
        runner.run_case(case.request(), lambda phase: None)
        for _ in range(options.cases):
            begun = time.perf_counter()
            runner.run_case(case.request(), lambda phase: None)
            alone.append((time.perf_counter() - begun) * 1e3)
            begun = time.perf_counter()
            executor.submit(case).result()
            supervised.append((time.perf_counter() - begun) * 1e3)
    medians = [round(statistics.median(side), 2) for side in (alone, supervised)]
    print(json.dumps({"alone_ms": medians[0], "supervised_ms": medians[1], "added_ms": round(medians[1] - medians[0], 2)}))


if __name__ == "__main__":
    main()
