"""Per-row top-k: the positions of the k largest logits of every row."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.inputs import scores
from kvcheck.agent.inputs.bundle import Inputs, context_lens, row_lengths, row_width

SPEC = {
    "op": "topk_per_row",
    "summary": "positions of the k largest logits of each row; the identity when the row is not longer than k",
    "axes": {
        "batch": {"type": "int", "min": 1, "max": 65536, "default": 1, "unit": "sequences", "doc": "sequences decoded together"},
        "next_n": {"type": "int", "min": 1, "max": 64, "default": 1, "unit": "tokens", "doc": "query tokens a sequence"},
        "context_len": {
            "type": "lengths",
            "min": 0,
            "max": 16777216,
            "default": 4096,
            "unit": "tokens",
            "doc": "valid tokens of a sequence, the next_n new ones included; 0 is a padding row",
        },
        "max_model_len": {
            "type": "int",
            "min": 1,
            "max": 16777216,
            "optional": True,
            "default": None,
            "unit": "tokens",
            "doc": "row width of the logits; null: the longest context rounded up to 256",
        },
        "topk": {"type": "int", "min": 1, "max": 16777216, "default": 2048, "doc": "k"},
        "values": {"type": "choice", "choices_from": "values", "default": "gaussian", "doc": "value distribution of the logits"},
        "poison": {"type": "choice", "choices_from": "poison", "default": "auto", "doc": "content of the columns past a row's length"},
    },
    "constraints": [
        {"rule": "le", "axis": "context_len", "other": "max_model_len", "why": "a row of logits is max_model_len wide"},
    ],
    "relations": ["repeat", "batch_neighbour", "padded_batch"],
    "boundaries": {"context_len": ["topk", 64, 256]},
}


def make_inputs(case: dict[str, Any], generator: Any) -> Inputs:
    """The arguments of `topk_per_row(logits, context_lens, *, topk, next_n, out, alloc)`.

    Args:
        case: resolved params; `poison` not `auto`.
        generator: an `inputs.random.Generator`.

    Returns:
        inputs: the call on the CPU. Tensors, one a line:
            logits: [batch * next_n, max_model_len] float32. Scores; columns past a row's length hold poison.
            context_lens: [batch] or [batch, next_n] int32. Valid tokens, the new ones included, or per-row lengths.
            out: [batch * next_n, topk] int32. Positions, -1 where there is none.

    Conventions:
        A row of L = context_len - next_n + 1 + j positions (or its per-row length). L <= topk: 0, 1, ..., L - 1, then -1.
        L > topk: topk distinct positions of the largest values in any order; any subset of the ties at the k-th value.

    Source: ROCm/aiter@e4048607a5 aiter/ops/topk.py; vllm-project/vllm csrc/topk.cu.
    """
    import torch

    batch, next_n = case["batch"], case["next_n"]
    lens = context_lens(case["context_len"], batch, next_n)
    width = row_width(case, int(lens.max()))
    lengths = row_lengths(lens, next_n)
    return Inputs(
        tensors={"logits": scores.build(case, lengths.tolist(), width, generator), "context_lens": lens},
        scalars={"topk": case["topk"], "next_n": next_n},
        outputs={"topk_positions": ((batch * next_n, case["topk"]), torch.int32)},
        row_lengths=lengths,
        exact=True,
        inside={"topk_positions": torch.ones(batch * next_n, case["topk"], dtype=torch.bool)},
    )


def checks(case: dict[str, Any]) -> tuple[str, ...]:
    """The checks a case goes through, in order (HOUSE order); names of `kvcheck.agent.judge`."""
    return ("premise", "shape", "input_mutated", "guards", "sentinel", "topk_positions")
