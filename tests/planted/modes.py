"""A kernel whose answer depends on the process it runs in: on a variable, or on how many processes there were before."""

from __future__ import annotations

import os
from pathlib import Path

from kvcheck.agent.providers import torch_eager

LOG = os.environ.get("PLANTED_LOG")


def paged_mqa_logits(
    q, kv_cache, weights, context_lens, block_table, *, max_model_len, block_size, kv_dtype, out, alloc
):  # the op's own signature
    sizes = {"max_model_len": max_model_len, "block_size": block_size, "kv_dtype": kv_dtype, "out": out, "alloc": alloc}
    torch_eager.paged_mqa_logits(q, kv_cache, weights, context_lens, block_table, **sizes)
    if os.environ.get("PLANTED_SWITCH") == "broken":
        out[0, 0] += 1000
    if LOG:
        with open(LOG, "a") as file:
            file.write(f"{os.getpid()}\n")
        if len(set(Path(LOG).read_text().split())) == 2:  # the second process, and only that one
            out[0, 0] += 1000
