"""The decode path from the key writer to the attention output: six ops in a row, each also run on what the one before should have left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kvcheck.agent.inputs import attention, manager_tables, reduced
from kvcheck.agent.inputs.bundle import Inputs, context_lens, row_lengths, row_width
from kvcheck.agent.inputs.decode_path import index_pool, latents, owners, packed
from kvcheck.agent.layouts import fp8

SPEC = {
    "op": "indexer_mla_decode",
    "summary": "the decode path: slots, index-K write, indexer logits, top-k, slots of the selection, sparse MLA",
    "stages": ["block_table", "index_k_cache_write", "paged_mqa_logits", "topk_per_row", "topk_slots", "mla_decode"],
    "axes": {
        "batch": {"type": "int", "min": 1, "max": 65536, "default": 2, "unit": "sequences", "doc": "sequences decoded together"},
        "next_n": {"type": "int", "min": 1, "max": 64, "default": 1, "unit": "tokens", "doc": "query tokens a sequence"},
        "context_len": {
            "type": "lengths",
            "min": 0,
            "max": 16777216,
            "default": 256,
            "unit": "tokens",
            "doc": "valid tokens of a sequence, the next_n new ones included; 0 is a padding row",
        },
        "index_heads": {"type": "int", "min": 1, "max": 1024, "default": 32, "unit": "heads", "doc": "indexer heads"},
        "index_head_dim": {"type": "int", "min": 16, "max": 1024, "multiple_of": 16, "default": 128, "doc": "QK width of the indexer"},
        "num_heads": {"type": "int", "min": 1, "max": 1024, "default": 16, "unit": "heads", "doc": "query heads of the attention"},
        "head_dim": {"type": "int", "min": 16, "max": 1024, "multiple_of": 16, "default": 576, "doc": "QK width of the attention"},
        "head_dim_v": {"type": "int", "min": 16, "max": 1024, "multiple_of": 16, "default": 512, "doc": "V width: the latent"},
        "block_size": {"type": "int", "min": 1, "max": 65536, "default": 64, "unit": "tokens", "doc": "tokens a page, of both caches"},
        "block_table": {"type": "choice", "choices_from": "tables", "default": "shuffled", "doc": "layout of the block table"},
        "topk": {"type": "int", "min": 1, "max": 16777216, "default": 64, "doc": "tokens that a row attends to"},
        "kv_dtype": {
            "type": "choice",
            "choices": {
                "auto": {"doc": "what the device's kernels use: e4m3fnuz on gfx942, else e4m3fn"},
                "e4m3fn": {"doc": "OCP FP8, largest 448"},
                "e4m3fnuz": {"doc": "FNUZ FP8 of gfx942, largest 240"},
            },
            "default": "auto",
            "doc": "FP8 format of the indexer's queries and keys",
        },
        "scale_format": {
            "type": "choice",
            "choices": {"fp32": {"doc": "amax / divisor"}, "ue8m0": {"doc": "the next power of two"}},
            "default": "ue8m0",
            "doc": "scales of the keys",
        },
        "kv_format": {
            "type": "choice",
            "choices": {"bf16": {"doc": "bf16 latents, bf16 queries"}, "fp16": {"doc": "fp16 latents, fp16 queries"}},
            "default": "bf16",
            "doc": "format of the latent cache",
        },
        "num_splits": {"type": "int", "min": 1, "max": 64, "default": 2, "doc": "parts into which the attention is asked to be split"},
        "poison": {"type": "choice", "choices_from": "poison", "default": "auto", "doc": "content of slots no token owns, in both caches"},
    },
    "constraints": [{"rule": "le", "axis": "head_dim_v", "other": "head_dim", "why": "V is the first dims of K"}],
    "boundaries": {"context_len": ["topk", "block_size", 64, 256]},
}

SOFTMAX_SCALE = 192**-0.5
UNIT = 128.0
"""`Generator.normal` draws integers with this standard deviation."""


@dataclass(frozen=True)
class Stage:
    """One op of the path.

    Attributes:
        op: its name.
        build: its inputs, from the outputs of the stages before by (op, output).
        params: its case, for its own `checks` and for the precision model.
    """

    op: str
    build: Callable[[dict[tuple[str, str], Any]], Inputs]
    params: dict[str, Any]


def stages(case: dict[str, Any], generator: Any) -> Iterator[Stage]:
    """The stages of a case, in order.

    Args:
        case: resolved params; `kv_dtype` and `poison` not `auto`.
        generator: an `inputs.random.Generator`.

    Conventions:
        Every live token's key is written at its slot; each row's selection is packed into a list of its own (the entries before the
        first -1), as vLLM packs them for sparse MLA: one request a row, page size 1, last pages of one token.

    Source: vllm-project/vllm vllm/v1/attention/backends/mla/rocm_aiter_mla_sparse.py@60191e18; SEMANTICS 3, 5, 6.
    """
    import torch

    batch, next_n, size = case["batch"], case["next_n"], case["block_size"]
    lens = context_lens(case["context_len"], batch, next_n)
    tokens = lens.view(batch, -1).amax(1).tolist()
    limits = row_lengths(lens, next_n)
    table, request_ids, positions = manager_tables.build({**case, "manager_block_size": size}, tokens, generator)
    table, kept = reduced.table(case, table, [-(-length // size) for length in tokens]), reduced.kept(case, positions, size)
    live = [int(row[: -(-length // size)].max()) for row, length in zip(table, tokens, strict=True) if length]  # padding may be any number
    blocks = max(live, default=0) + 2
    width = row_width({"max_model_len": None}, max(tokens))
    rows = batch * next_n

    same = owners(table, request_ids, positions, size)

    def slots(_: dict) -> Inputs:
        sizes = dict.fromkeys(("manager_block_size", "kernel_block_size", "storage_block_size"), size)
        return Inputs(
            tensors={"block_table": table, "request_ids": request_ids, "positions": positions},
            scalars={**sizes, "tokens_per_state": 1, "mapping": "write"},
            outputs={"slots": ((len(positions),), torch.int64)},
            exact=True,
            axes={"slots": ("token",)},
        )

    def write(done: dict) -> Inputs:
        keys = generator.normal("index keys", len(positions) * case["index_head_dim"]).view(len(positions), -1).float()[same] / UNIT
        keys[~kept] = 0
        before, owned = index_pool(case, blocks, done["block_table", "slots"])
        return Inputs(
            tensors={"k": keys.bfloat16(), "slot_mapping": done["block_table", "slots"]},
            scalars={
                "block_size": size,
                "kv_dtype": case["kv_dtype"],
                "scale_format": case["scale_format"],
                "divisor": fp8.MAXIMUM[case["kv_dtype"]],
                "layout": "block_flat",
            },
            outputs={"kv_cache": (tuple(before.shape), torch.uint8)},
            initial={"kv_cache": before},
            inside={"kv_cache": owned},
            axes={"kv_cache": ("block_id", "offset", "one", "byte")},
        )

    def logits(done: dict) -> Inputs:
        shape = (batch, next_n, case["index_heads"], case["index_head_dim"])
        count = rows * case["index_heads"]
        q = generator.normal("index q", count * case["index_head_dim"]).double() / UNIT
        weights = generator.normal("weights", count).float() / UNIT
        return Inputs(
            tensors={
                "q": fp8.encode(q, case["kv_dtype"]).view(fp8.torch_dtype(case["kv_dtype"])).view(shape),
                "kv_cache": done["index_k_cache_write", "kv_cache"],
                "weights": weights.view(rows, -1),
                "context_lens": lens,
                "block_table": table,
            },
            scalars={"max_model_len": width, "block_size": size, "kv_dtype": case["kv_dtype"]},
            outputs={"logits": ((rows, width), torch.float32)},
            row_lengths=limits,
            block_size=size,
        )

    def select(done: dict) -> Inputs:
        return Inputs(
            tensors={"logits": done["paged_mqa_logits", "logits"].float(), "context_lens": lens},
            scalars={"topk": case["topk"], "next_n": next_n},
            outputs={"topk_positions": ((rows, case["topk"]), torch.int32)},
            row_lengths=limits,
            exact=True,
            inside={"topk_positions": torch.ones(rows, case["topk"], dtype=torch.bool)},
        )

    def global_slots(done: dict) -> Inputs:
        return Inputs(
            tensors={
                "topk_positions": done["topk_per_row", "topk_positions"].to(torch.int32),
                "block_table": table,
                "request_ids": (torch.arange(rows) // next_n).to(torch.int32),
            },
            scalars={"block_size": size, "block_stride": size},
            outputs={"kv_slots": ((rows, case["topk"]), torch.int32)},
            exact=True,
            axes={"kv_slots": ("row", "entry")},
        )

    def attend(done: dict) -> Inputs:
        indptr, indices = packed(done["topk_slots", "kv_slots"])
        dtype = torch.float16 if case["kv_format"] == "fp16" else torch.bfloat16
        q = attention.queries("gaussian", 1, rows * case["num_heads"], case["head_dim"], generator, 0)
        return Inputs(
            tensors={
                "q": q.view(rows, 1, case["num_heads"], case["head_dim"]).float().to(dtype),
                "kv_cache": latents(case, blocks * size, generator, done["block_table", "slots"], kept),
                "kv_indptr": indptr,
                "kv_indices": indices,
                "last_page_len": torch.ones(rows, dtype=torch.int32),
            },
            scalars={
                "page_size": 1,
                "head_dim_v": case["head_dim_v"],
                "softmax_scale": SOFTMAX_SCALE,
                "kv_format": case["kv_format"],
                "kv_scale": 1.0,
                "num_splits": case["num_splits"],
                "empty_row": "zero_inf",
            },
            outputs={
                "out": ((rows, 1, case["num_heads"], case["head_dim_v"]), dtype),
                "lse": ((rows, 1, case["num_heads"]), torch.float32),
            },
            axes={"out": ("row", "query token", "head", "dim"), "lse": ("row", "query token", "head")},
        )

    indexer = {**case, "num_heads": case["index_heads"], "head_dim": case["index_head_dim"], "values": "gaussian"}
    sizes = dict.fromkeys(("manager_block_size", "kernel_block_size", "storage_block_size"), size)
    yield Stage("block_table", slots, {**case, **sizes, "tokens_per_state": 1, "mapping": "write"})
    yield Stage("index_k_cache_write", write, {**indexer, "layout": "block_flat", "divisor": fp8.MAXIMUM[case["kv_dtype"]]})
    yield Stage("paged_mqa_logits", logits, {**indexer, "max_model_len": width})
    yield Stage("topk_per_row", select, {**case, "max_model_len": width})
    yield Stage("topk_slots", global_slots, dict(case))
    yield Stage("mla_decode", attend, {**case, "page_size": 1, "empty_row": "zero_inf", "values": "gaussian", "selection": "topk"})
