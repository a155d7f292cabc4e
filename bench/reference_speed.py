"""The float64 reference with its certified bound against the per-token Python loop that quick reproducers use.

Same machine, same run, same inputs: 4,096 tokens, 32 heads, head_dim 128, block size 1, one CPU thread (or a GPU).
The loop does what the script in vLLM issue 39303 does (written anew): for every block it fetches the page id, multiplies
one key by all heads, masks, weighs and sums.

    python bench/reference_speed.py [--device cpu|cuda] [--tokens 4096] [--heads 32]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch
from kvcheck.agent import precision, specs
from kvcheck.agent.inputs.random import Generator
from kvcheck.agent.judge import bounds
from kvcheck.agent.ops import paged_mqa_logits
from kvcheck_references.paged_mqa_logits import paged_mqa_logits as reference


def per_token_loop(q, kv_cache, weights, context_lens, block_table, max_model_len):
    """[rows, max_model_len] float32 logits, one page at a time: block size 1 only."""
    batch, next_n, heads, dim = q.shape
    keys = kv_cache[..., :dim].view(torch.float8_e4m3fn).float() * kv_cache[..., dim:].contiguous().view(torch.float32)
    logits = torch.full((batch * next_n, max_model_len), float("-inf"), device=q.device)
    queries = q.float()
    for request in range(batch):
        length = context_lens[request].item()
        last = torch.arange(length - next_n, length, device=q.device)
        weight = weights[request * next_n : (request + 1) * next_n].T.contiguous()
        for block in range(length):
            key = keys[block_table[request][block]]
            position = torch.arange(block, block + 1, device=q.device)
            seen = (position[None, :] < length) & (position[None, :] <= last[:, None])
            score = queries[request].transpose(0, 1) @ key.transpose(0, 1).transpose(1, 2)
            score = torch.where(seen[None], score, float("-inf"))
            score = (torch.relu(score) * weight[..., None]).sum(0)
            score = torch.where(position[None, :] <= last[:, None], score, float("-inf"))
            logits[request * next_n : (request + 1) * next_n, block : block + 1] = score
    return logits


def seconds(function, runs, device):
    """Median wall time of a call after one warm-up."""
    spent = []
    for turn in range(runs + 1):
        begun = time.perf_counter()
        function()
        if device == "cuda":
            torch.cuda.synchronize()
        if turn:
            spent.append(time.perf_counter() - begun)
    return statistics.median(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--heads", type=int, default=32)
    options = parser.parse_args()
    torch.set_num_threads(1)
    case = {name: axis.default for name, axis in specs.axes("paged_mqa_logits").items()}
    case.update(num_heads=options.heads, context_len=options.tokens, block_size=1, kv_dtype="e4m3fn", poison="zero")
    inputs = paged_mqa_logits.make_inputs(case, Generator(42))
    tensors = {name: tensor.to(options.device) for name, tensor in inputs.tensors.items()}
    lengths = inputs.row_lengths.to(options.device)
    model = precision.parse("fp32_any")

    def loop():
        return per_token_loop(**tensors, max_model_len=inputs.scalars["max_model_len"])

    def vectorised():
        return reference(**tensors, **inputs.scalars, out=None, alloc=None)

    def bounded():
        return vectorised(), bounds.logits_bound(tensors, inputs.scalars, lengths, model, False)

    wanted, looped = vectorised(), loop()
    inside = torch.isfinite(wanted)
    assert float((wanted - looped.double())[inside].abs().max()) < 1e-2, "the loop and the reference disagree"
    loop_s, reference_s, bounded_s = seconds(loop, 3, options.device), seconds(vectorised, 9, options.device), seconds(bounded, 9, options.device)
    name = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    print(
        json.dumps(
            {
                "device": name,
                "torch": torch.__version__,
                "tokens": options.tokens,
                "heads": options.heads,
                "loop_ms": round(loop_s * 1e3, 2),
                "reference_ms": round(reference_s * 1e3, 3),
                "reference_with_bound_ms": round(bounded_s * 1e3, 3),
                "speedup_reference": round(loop_s / reference_s, 1),
                "speedup_reference_with_bound": round(loop_s / bounded_s, 1),
            }
        )
    )


if __name__ == "__main__":
    main()
