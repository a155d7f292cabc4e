"""Gathers the keys of whole requests out of the paged index cache: what the prefill indexer scores against."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.inputs import index_cache, pitch, table_stride
from kvcheck.agent.inputs.bundle import Inputs, context_lens
from kvcheck.agent.layouts import shuffled

SPEC = {
    "op": "index_k_cache_gather",
    "summary": "copies codes and scales of every token of every request out of a paged cache, requests one after the other",
    "axes": {
        "batch": {"type": "int", "min": 1, "max": 65536, "default": 2, "unit": "sequences", "doc": "requests gathered together"},
        "context_len": {
            "type": "lengths",
            "min": 0,
            "max": 16777216,
            "default": 300,
            "unit": "tokens",
            "doc": "tokens of a request; 0: none of its own",
        },
        "head_dim": {"type": "int", "min": 16, "max": 1024, "multiple_of": 16, "default": 128, "doc": "codes a key"},
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
        "kv_dtype": {
            "type": "choice",
            "choices": {
                "auto": {"doc": "what the device's kernels use: e4m3fnuz on gfx942, else e4m3fn"},
                "e4m3fn": {"doc": "OCP FP8, largest 448"},
                "e4m3fnuz": {"doc": "FNUZ FP8 of gfx942, largest 240"},
            },
            "default": "auto",
            "doc": "FP8 format of the keys; a copy does not depend on it",
        },
        "layout": {
            "type": "choice",
            "choices": {
                "block_flat": {"doc": "keys of a page token after token, then its scales"},
                "shuffled": {"doc": "keys of a page in tiles of 16 tokens by 16 bytes, then its scales", "needs": {"block_size": 16}},
            },
            "default": "block_flat",
            "doc": "layout of a page",
        },
        "values": {"type": "choice", "choices_from": "values", "default": "gaussian", "doc": "value distribution"},
        "scale": {"type": "choice", "choices_from": "scale", "default": "amax", "doc": "how key scales are chosen"},
        "poison": {"type": "choice", "choices_from": "poison", "default": "auto", "doc": "content of slots no token owns"},
        "cache": {"type": "choice", "choices_from": "pitch", "default": "contiguous", "doc": "how pages lie in memory"},
        "table_stride": {"type": "choice", "choices_from": "table_stride", "default": "width", "doc": "row stride of the block table"},
    },
    "constraints": [{"rule": "pages", "axis": "num_blocks", "other": "context_len", "why": "the pool holds every request's pages"}],
    "relations": [
        "repeat",
        "page_permutation",
        "block_size",
        "batch_neighbour",
        "padded_batch",
        "strided_against_contiguous",
        "low_against_high_ids",
    ],
    "boundaries": {"context_len": ["block_size", 64, 256]},
}

SPARE_ROWS = 5
"""Rows of the outputs that no request has."""


def make_inputs(case: dict[str, Any], generator: Any) -> Inputs:
    """The arguments of `index_k_cache_gather(kv_cache, block_table, cu_seq_lens, *, block_size, kv_dtype, layout, k, k_scale, alloc)`.

    Args:
        case: resolved params; `kv_dtype` and `poison` not `auto`.
        generator: an `inputs.random.Generator`.

    Returns:
        inputs: the call on the CPU. Tensors, one a line:
            kv_cache: [num_blocks, block_size, 1, head_dim + 4] uint8. Keys and scales.
            block_table: [batch, width] int32. Page ids.
            cu_seq_lens: [batch + 1] int32. Row at which each request begins; the last is where rows end.
            k: [tokens, head_dim] uint8. FP8 codes, an output.
            k_scale: [tokens] float32. Key scales, an output.

    Conventions:
        Row t of request b, cu_seq_lens[b] <= t < cu_seq_lens[b + 1], is position t - cu_seq_lens[b]. Everything is a copy, bit for bit. The
        outputs have five rows more than there are tokens, which stay as they were.

    Raises:
        ValueError: the pool is too small, or a page does not divide into tiles.

    Source: ROCm/aiter@e4048607a5 csrc/kernels/cache_kernels.cu cp_gather_indexer_k_quant_cache; vllm-project/vllm csrc/cache_kernels.cu.
    """
    import torch

    lengths = context_lens(case["context_len"], case["batch"], 1).view(-1).tolist()
    if case["layout"] == "shuffled" and not shuffled.fits(case["block_size"], case["head_dim"]):
        raise ValueError(f"a page of {case['block_size']} tokens by {case['head_dim']} bytes does not divide into tiles of 16 by 16")
    kv_cache, table, _ = index_cache.build({**case, "num_heads": case["head_dim"]}, lengths, generator)
    if case["layout"] == "shuffled":
        kv_cache = shuffled.write(kv_cache)
    total, dim = sum(lengths), case["head_dim"]
    rows = total + SPARE_ROWS
    owned = torch.arange(rows) < total
    codes = generator.bits("before", rows * dim // 8).view(torch.uint8).view(rows, dim)
    return Inputs(
        tensors={
            "kv_cache": pitch.lay(kv_cache, case["cache"]),
            "block_table": table_stride.lay(table, case["table_stride"]),
            "cu_seq_lens": torch.tensor([0, *lengths]).cumsum(0).to(torch.int32),
        },
        scalars={name: case[name] for name in ("block_size", "kv_dtype", "layout")},
        outputs={"k": ((rows, dim), torch.uint8), "k_scale": ((rows,), torch.float32)},
        initial={"k": codes, "k_scale": generator.normal("before/scale", rows).float()},
        inside={"k": owned[:, None].expand(rows, dim), "k_scale": owned},
        axes={"k": ("row", "dim"), "k_scale": ("row",)},
    )


def checks(case: dict[str, Any]) -> tuple[str, ...]:
    """The checks a case goes through, in order (HOUSE order); names of `kvcheck.agent.judge`."""
    return ("shape", "input_mutated", "guards", "exact", "repeat")
