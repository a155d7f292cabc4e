"""FP8 paged MQA logits: the decode indexer's score of every cached token."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.inputs import index_cache, keys, pitch, table_stride
from kvcheck.agent.inputs.bundle import Inputs, context_lens, row_lengths, row_width
from kvcheck.agent.layouts import fp8

SPEC = {
    "op": "paged_mqa_logits",
    "summary": "decode indexer logits: sum over heads of weight * relu(q . k * scale), keys read through a block table",
    "axes": {
        "batch": {"type": "int", "min": 1, "max": 65536, "default": 1, "unit": "sequences", "doc": "sequences decoded together"},
        "next_n": {"type": "int", "min": 1, "max": 64, "default": 1, "unit": "tokens", "doc": "query tokens a sequence"},
        "num_heads": {"type": "int", "min": 1, "max": 1024, "default": 64, "unit": "heads", "doc": "indexer heads"},
        "head_dim": {"type": "int", "min": 16, "max": 1024, "multiple_of": 16, "default": 128, "doc": "QK width"},
        "context_len": {
            "type": "lengths",
            "min": 0,
            "max": 16777216,
            "default": 4096,
            "unit": "tokens",
            "doc": "valid tokens of a sequence, the next_n new ones included; 0 is a padding row",
        },
        "block_size": {"type": "int", "min": 1, "max": 65536, "default": 64, "unit": "tokens", "doc": "tokens a page"},
        "num_blocks": {
            "type": "int",
            "min": 1,
            "max": 2147483647,
            "optional": True,
            "default": None,
            "doc": "pages in the pool; null: what is needed, and spares",
        },
        "block_table": {"type": "choice", "choices_from": "tables", "default": "shuffled", "doc": "layout of the block table"},
        "max_model_len": {
            "type": "int",
            "min": 1,
            "max": 16777216,
            "optional": True,
            "default": None,
            "unit": "tokens",
            "doc": "row width of the logits; null: the longest context rounded up to 256",
        },
        "topk": {"type": "int", "min": 1, "max": 16777216, "default": 2048, "doc": "k of the selection that is judged on the logits"},
        "kv_dtype": {
            "type": "choice",
            "choices": {
                "auto": {"doc": "what the device's kernels use: e4m3fnuz on gfx942, else e4m3fn"},
                "e4m3fn": {"doc": "OCP FP8, largest 448"},
                "e4m3fnuz": {"doc": "FNUZ FP8 of gfx942, largest 240"},
            },
            "default": "auto",
            "doc": "FP8 format of q and the keys",
        },
        "values": {"type": "choice", "choices_from": "values", "default": "gaussian", "doc": "value distribution"},
        "scale": {"type": "choice", "choices_from": "scale", "default": "amax", "doc": "how key scales are chosen"},
        "poison": {"type": "choice", "choices_from": "poison", "default": "auto", "doc": "content of slots no token owns"},
        "cache": {"type": "choice", "choices_from": "pitch", "default": "contiguous", "doc": "how pages lie in memory"},
        "table_stride": {"type": "choice", "choices_from": "table_stride", "default": "width", "doc": "row stride of the block table"},
    },
    "constraints": [
        {"rule": "le", "axis": "context_len", "other": "max_model_len", "why": "a row of logits is max_model_len wide"},
        {"rule": "pages", "axis": "num_blocks", "other": "context_len", "why": "the pool holds every request's pages"},
    ],
    "relations": [
        "repeat",
        "page_permutation",
        "block_size",
        "batch_neighbour",
        "padded_batch",
        "decode_against_prefill",
        "strided_against_contiguous",
        "low_against_high_ids",
    ],
    "boundaries": {"context_len": ["topk", "block_size", 64, 256]},
}


def make_inputs(case: dict[str, Any], generator: Any) -> Inputs:
    """The arguments of `paged_mqa_logits(q, kv_cache, weights, context_lens, block_table, *, ...)`.

    Args:
        case: resolved params; `kv_dtype` and `poison` not `auto`.
        generator: an `inputs.random.Generator`.

    Returns:
        inputs: the call on the CPU. Tensors, one a line:
            q: [batch, next_n, num_heads, head_dim] float8. Queries.
            kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. Keys and scales, block-flat.
            weights: [batch * next_n, num_heads] float32. Head weights; the caller's scales are folded in.
            context_lens: [batch] or [batch, next_n] int32. Valid tokens, the new ones included, or per-row lengths.
            block_table: [batch, width] int32. Page ids.
            out: [batch * next_n, max_model_len] float32. Logits.

    Conventions:
        Row j of a sequence sees positions [0, context_len - next_n + 1 + j), never fewer than none; per-row lengths are
        taken as they are. Past that a row holds -inf or stays untouched. Pages are contiguous; the block stride and the table's row
        stride may be more than a page and a row (`cache`, `table_stride`).

    Raises:
        ValueError: the pool is too small for the requests, or for a beacon's digits.

    Source: ROCm/aiter@e4048607a5 aiter/ops/triton/attention/pa_mqa_logits.py; deepseek-ai/DeepGEMM@54e2261 csrc/apis/attention.hpp.
    """
    import torch

    batch, next_n = case["batch"], case["next_n"]
    lens = context_lens(case["context_len"], batch, next_n)
    tokens = lens.view(batch, -1).amax(1).tolist()
    kv_cache, table, shape = index_cache.build(case, tokens, generator)
    q, weights = keys.queries(case["values"], shape, generator, batch * next_n)
    width = row_width(case, max(tokens))
    q = fp8.encode(q, case["kv_dtype"]).view(fp8.torch_dtype(case["kv_dtype"]))
    return Inputs(
        tensors={
            "q": q.view(batch, next_n, case["num_heads"], case["head_dim"]),
            "kv_cache": pitch.lay(kv_cache, case["cache"]),
            "weights": weights.float().contiguous(),
            "context_lens": lens,
            "block_table": table_stride.lay(table, case["table_stride"]),
        },
        scalars={"max_model_len": width, "block_size": case["block_size"], "kv_dtype": case["kv_dtype"]},
        outputs={"logits": ((batch * next_n, width), torch.float32)},
        row_lengths=row_lengths(lens, next_n),
        exact=case["values"] in keys.EXACT,
        block_size=case["block_size"],
    )


def checks(case: dict[str, Any]) -> tuple[str, ...]:
    """The checks a case goes through, in order (HOUSE order); names of `kvcheck.agent.judge`."""
    return ("premise", "shape", "input_mutated", "guards", "sentinel", "finite_mask", "bound", "topk_of_logits", "repeat")
