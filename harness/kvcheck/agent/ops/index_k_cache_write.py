"""The indexer's key writer: quantises new keys to FP8, and writes codes and scale into their slots."""

from __future__ import annotations

from typing import Any

from kvcheck.agent.inputs import pitch, reduced, slot_mapping, writer_keys
from kvcheck.agent.inputs.bundle import Inputs
from kvcheck.agent.layouts import block_flat, shuffled

SPEC = {
    "op": "index_k_cache_write",
    "summary": "quantises index keys a token at a time and writes them into a paged cache; every other byte stays as it was",
    "axes": {
        "tokens": {"type": "int", "min": 1, "max": 16777216, "default": 300, "unit": "tokens", "doc": "new tokens"},
        "head_dim": {"type": "int", "min": 16, "max": 1024, "multiple_of": 16, "default": 128, "doc": "numbers a key"},
        "block_size": {"type": "int", "min": 1, "max": 65536, "default": 64, "unit": "tokens", "doc": "tokens a page"},
        "num_blocks": {
            "type": "int",
            "min": 1,
            "max": 2147483647,
            "optional": True,
            "default": None,
            "doc": "pages in the pool; null: what is needed, and spares",
        },
        "slots": {"type": "choice", "choices_from": "slot_mapping", "default": "padded", "doc": "where the tokens are written"},
        "kv_dtype": {
            "type": "choice",
            "choices": {
                "auto": {"doc": "what the device's kernels use: e4m3fnuz on gfx942, else e4m3fn"},
                "e4m3fn": {"doc": "OCP FP8, largest 448"},
                "e4m3fnuz": {"doc": "FNUZ FP8 of gfx942, largest 240"},
            },
            "default": "auto",
            "doc": "FP8 format of the codes",
        },
        "scale_format": {
            "type": "choice",
            "choices": {
                "fp32": {"doc": "amax / divisor: codes of k / scale and of k * (1 / scale) are both right"},
                "ue8m0": {"doc": "amax / divisor rounded up to a power of two: one right byte everywhere"},
            },
            "default": "ue8m0",
            "doc": "format of the scale",
        },
        "divisor": {
            "type": "int",
            "min": 8,
            "max": 448,
            "default": 448,
            "doc": "what amax is divided by: 448 for e4m3fn; 240 (aiter) or 224 (vLLM) for e4m3fnuz",
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
        "values": {"type": "choice", "choices_from": "writer_keys", "default": "gaussian", "doc": "value distribution of the keys"},
        "cache": {"type": "choice", "choices_from": "pitch", "default": "contiguous", "doc": "how pages lie in memory"},
    },
    "constraints": [],
    "relations": [
        "repeat",
        "page_permutation",
        "block_size",
        "batch_neighbour",
        "padded_batch",
        "strided_against_contiguous",
        "low_against_high_ids",
    ],
    "boundaries": {"tokens": ["block_size", 64, 256]},
}


def make_inputs(case: dict[str, Any], generator: Any) -> Inputs:
    """The arguments of `index_k_cache_write(k, slot_mapping, *, block_size, kv_dtype, scale_format, divisor, layout, out, alloc)`.

    Args:
        case: resolved params; `kv_dtype` not `auto`.
        generator: an `inputs.random.Generator`.

    Returns:
        inputs: the call on the CPU. Tensors, one a line:
            k: [tokens, head_dim] bfloat16. New keys.
            slot_mapping: [tokens] int64. block_id * block_size + offset, distinct; -1: the token is not written.
            out: [num_blocks, block_size, 1, head_dim + 4] uint8. The cache, changed in place; random bytes before.

    Conventions:
        scale = max(amax, 1e-4) / divisor over the token's head_dim numbers, in fp32; ue8m0 rounds it up to a power of two. Code: k / scale
        to the nearest even, magnitudes past the format's largest saturate; a zero keeps its sign in e4m3fn, e4m3fnuz has no -0. An fp32
        scale may be two ulp off, and its codes those of any fp32 quotient within 2**-22 of k / scale: division, multiplication by the
        reciprocal, a GPU's fast division. Bytes of other slots, and between pages that lie apart, stay as they were.

    Raises:
        ValueError: the pool is too small, or a page does not divide into tiles.

    Source: ROCm/aiter@e4048607a5 csrc/kernels/cache_kernels.cu indexer_k_quant_and_cache; vllm-project/vllm csrc/cache_kernels.cu.
    """
    import torch

    tokens, head_dim, block_size = case["tokens"], case["head_dim"], case["block_size"]
    if case["layout"] == "shuffled" and not shuffled.fits(block_size, head_dim):
        raise ValueError(f"a page of {block_size} tokens by {head_dim} bytes does not divide into tiles of 16 by 16")
    num_blocks = case["num_blocks"] or slot_mapping.pool_size(case["slots"], tokens, block_size)
    slots = slot_mapping.build(case["slots"], tokens, num_blocks, block_size, generator)
    shape = (num_blocks, block_size, 1, head_dim + 4)
    count = num_blocks * block_size * (head_dim + 4)
    before = generator.bits("before", -(-count // 8)).view(torch.uint8)[:count].view(shape)
    owned, written = torch.zeros(shape, dtype=torch.uint8), slots[slots >= 0]
    ones = torch.ones(len(written), head_dim, dtype=torch.uint8)
    block_flat.scatter(owned, written, ones, torch.full((len(written),), 0x01010101, dtype=torch.int32).view(torch.float32))
    if case["layout"] == "shuffled":
        owned = shuffled.write(owned)
    k = writer_keys.build(case["values"], tokens, head_dim, case["divisor"], generator)
    k[~reduced.kept(case, torch.arange(tokens))] = 0
    return Inputs(
        tensors={"k": k, "slot_mapping": slots},
        scalars={name: case[name] for name in ("block_size", "kv_dtype", "scale_format", "divisor", "layout")},
        outputs={"kv_cache": (shape, torch.uint8)},
        initial={"kv_cache": pitch.lay(before, case["cache"])},
        inside={"kv_cache": owned.bool()},
        axes={"kv_cache": ("block_id", "offset", "one", "byte")},
    )


def checks(case: dict[str, Any]) -> tuple[str, ...]:
    """The checks a case goes through, in order (HOUSE order); names of `kvcheck.agent.judge`."""
    return ("shape", "input_mutated", "guards", "cache_written", "cache_scales", "cache_codes", "cache_untouched", "repeat")
