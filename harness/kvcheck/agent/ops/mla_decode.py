"""MLA decode: absorbed attention of every query head over one latent a token, read through a list of pages."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.inputs import attention, latent_cache
from kvcheck.agent.inputs.bundle import Inputs, context_lens

SPEC = {
    "op": "mla_decode",
    "summary": "attention of a few query tokens over a paged latent cache, split over the context and merged; out and natural-log lse",
    "axes": {
        "batch": {"type": "int", "min": 1, "max": 65536, "default": 1, "unit": "sequences", "doc": "sequences decoded together"},
        "next_n": {"type": "int", "min": 1, "max": 64, "default": 1, "unit": "tokens", "doc": "query tokens a sequence"},
        "num_heads": {"type": "int", "min": 1, "max": 1024, "default": 16, "unit": "heads", "doc": "query heads"},
        "head_dim": {"type": "int", "min": 16, "max": 1024, "multiple_of": 16, "default": 576, "doc": "QK width: latent and rotated dims"},
        "head_dim_v": {"type": "int", "min": 16, "max": 1024, "multiple_of": 16, "default": 512, "doc": "V width: the latent"},
        "context_len": {
            "type": "lengths",
            "min": 0,
            "max": 16777216,
            "default": 1024,
            "unit": "tokens",
            "doc": "valid tokens of a sequence, the next_n new ones included; 0 is a padding row",
        },
        "page_size": {"type": "int", "min": 1, "max": 65536, "default": 64, "unit": "tokens", "doc": "tokens a page"},
        "num_pages": {
            "type": "int",
            "min": 1,
            "max": 2147483647,
            "optional": True,
            "default": None,
            "doc": "pages in the pool; null: what is needed, and spares",
        },
        "block_table": {
            "type": "choice",
            "choices_from": "tables",
            "default": "shuffled",
            "doc": "where the pages lie, and what pads the list",
        },
        "selection": {"type": "choice", "choices_from": "latent_cache", "default": "dense", "doc": "which tokens a row attends to"},
        "topk": {"type": "int", "min": 1, "max": 16777216, "default": 2048, "doc": "tokens of a sparse row's list"},
        "kv_format": {
            "type": "choice",
            "choices": {
                "bf16": {"doc": "bf16 latents, bf16 queries"},
                "fp16": {"doc": "fp16 latents, fp16 queries"},
                "e4m3fn": {"doc": "OCP FP8 codes times kv_scale, bf16 queries"},
                "e4m3fnuz": {"doc": "FNUZ FP8 codes times kv_scale, bf16 queries"},
                "fp8_656": {
                    "doc": "FlashMLA's 656-byte token: 512 e4m3fn, four fp32 scales, 64 bf16; bf16 queries",
                    "needs": {"head_dim": 576},
                },
            },
            "default": "bf16",
            "doc": "format of the cache",
        },
        "kv_scale": {
            "type": "number",
            "min": 1e-6,
            "max": 1e6,
            "default": 0.5,
            "doc": "factor of per-tensor FP8 codes; other formats have none",
        },
        "softmax_scale": {
            "type": "number",
            "min": 1e-6,
            "max": 1e3,
            "optional": True,
            "default": None,
            "doc": "factor of the scores; null: 192**-0.5, DeepSeek's",
        },
        "num_splits": {"type": "int", "min": 1, "max": 64, "default": 4, "doc": "parts into which a kernel is asked to split the context"},
        "empty_row": {
            "type": "choice",
            "choices": {
                "zero_inf": {"doc": "out 0, lse +inf (FlashMLA)"},
                "zero_minus_1e30": {"doc": "out 0, lse -1e30 (FlashInfer, SM120)"},
                "nan": {"doc": "out NaN, lse not promised (aiter's unified_attention_sparse_mla)"},
                "zero": {"doc": "out 0, lse not promised (aiter's pa_decode_sparse)"},
            },
            "default": "zero_inf",
            "doc": "what a row without a position holds",
        },
        "values": {"type": "choice", "choices_from": "attention", "default": "gaussian", "doc": "value distribution"},
        "scale": {"type": "choice", "choices_from": "scale", "default": "ue8m0", "doc": "how the scales of a 656-byte token are chosen"},
        "poison": {
            "type": "choice",
            "choices_from": "poison",
            "default": "auto",
            "doc": "content of slots no token owns, last pages' tails included",
        },
    },
    "constraints": [
        {"rule": "le", "axis": "head_dim_v", "other": "head_dim", "why": "V is the first dims of K"},
    ],
    "relations": ["repeat", "page_permutation", "block_size", "batch_neighbour", "split_count", "padded_batch", "low_against_high_ids"],
    "boundaries": {"context_len": ["topk", "page_size", 64, 256]},
}

NO_LSE = frozenset({"nan", "zero"})
"""Conventions of kernels that say nothing of an empty row's lse."""


def make_inputs(case: dict[str, Any], generator: Any) -> Inputs:
    """The arguments of `mla_decode(q, kv_cache, kv_indptr, kv_indices, last_page_len, *, page_size, num_splits, ..., out, lse, alloc)`.

    Args:
        case: resolved params; `poison` not `auto`.
        generator: an `inputs.random.Generator`.

    Returns:
        inputs: the call on the CPU. Tensors, one a line:
            q: [batch, next_n, num_heads, head_dim] bfloat16. Queries; float16 where kv_format is fp16.
            kv_cache: [num_pages, page_size, 1, row_bytes] uint8. Latents, in kv_format.
            kv_indptr: [batch + 1] int32. Where each request's pages begin in kv_indices.
            kv_indices: [entries] int32. Page ids, token slots where page_size is 1; entries past the last request's are padding.
            last_page_len: [batch] int32. Tokens in each request's last page; page_size (1) where there is none.
            out: [batch, next_n, num_heads, head_dim_v] bfloat16. Attention; q's dtype.
            lse: [batch, next_n, num_heads] float32. Natural logarithm of the sum of exp(score).

    Conventions:
        A request of L = (pages - 1) * page_size + last_page_len tokens; row j sees the first L - next_n + 1 + j of them. K is the
        whole row, V its first head_dim_v dims. Slots listed twice count twice. What a row that sees nothing holds: empty_row.
        FP8 numbers are code * kv_scale, exactly; the latent of a 656-byte token is code * scale rounded to bf16.

    Raises:
        ValueError: the pool is too small for the requests, or the values do not fit the other axes.

    Source: ROCm/aiter@e4048607a5 aiter/mla.py; deepseek-ai/FlashMLA@9241ae3 flash_mla/flash_mla_interface.py, tests/quant.py.
    """
    import torch

    batch, next_n, heads = case["batch"], case["next_n"], case["num_heads"]
    lens = context_lens(case["context_len"], batch, next_n)
    if lens.dim() == 2:
        raise ValueError("context_len of mla_decode is one length a request: rows of a request see one token more each")
    per_tensor = case["kv_format"] in ("e4m3fn", "e4m3fnuz")
    case = {**case, "kv_scale": float(case["kv_scale"]) if per_tensor else 1.0}
    made = latent_cache.build(case, lens.tolist(), generator)
    dtype = torch.float16 if case["kv_format"] == "fp16" else torch.bfloat16
    seen = torch.tensor([[latent_cache.attended(case, n) - next_n + 1 + j for j in range(next_n)] for n in lens.tolist()])
    known = torch.ones(batch, next_n, heads, dtype=torch.bool)
    if case["empty_row"] in NO_LSE:
        known &= (seen > 0)[..., None]
    return Inputs(
        tensors={
            "q": made.q.float().to(dtype),
            "kv_cache": made.kv_cache,
            "kv_indptr": made.kv_indptr,
            "kv_indices": made.kv_indices,
            "last_page_len": made.last_page_len,
        },
        scalars={
            "page_size": case["page_size"],
            "head_dim_v": case["head_dim_v"],
            "softmax_scale": 192**-0.5 if case["softmax_scale"] is None else float(case["softmax_scale"]),
            "kv_format": case["kv_format"],
            "kv_scale": case["kv_scale"],
            "num_splits": case["num_splits"],
            "empty_row": case["empty_row"],
        },
        outputs={"out": ((batch, next_n, heads, case["head_dim_v"]), dtype), "lse": ((batch, next_n, heads), torch.float32)},
        exact=case["values"] in attention.CODED,
        inside={"lse": known},
        axes={"out": ("request", "query token", "head", "dim"), "lse": ("request", "query token", "head")},
    )


def checks(case: dict[str, Any]) -> tuple[str, ...]:
    """The checks a case goes through, in order (HOUSE order); names of `kvcheck.agent.judge`."""
    return ("premise_attention", "shape", "input_mutated", "guards", "sentinel", "finite_values", "bound_values", "repeat")
