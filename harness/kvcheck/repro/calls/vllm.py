"""Calls of vLLM's own functions, as its model runner and its backends make them."""

from __future__ import annotations

from kvcheck.agent.protocol import parse_provider
from kvcheck.repro.parts import NoScript, Parts
from kvcheck.repro.wanted import Called, Wanted, rooms

OPS = "vllm.v1.attention.ops.rocm_aiter_mla_sparse"
SPARSE = "vllm.v1.attention.backends.mla.sparse_utils"
WIDEST_TILE = 1024


def build(wanted: Wanted, parts: Parts) -> Called:
    """How vLLM's function of an op is loaded and called.

    Args:
        wanted: the row.
        parts: sections of its op.

    Raises:
        NoScript: an op or a variant that takes more of vLLM than a short script can hold.
    """
    _, variant, _ = parse_provider(wanted.provider)
    load: list[str]
    if wanted.op == "paged_mqa_logits" and variant is None:
        load = [f"from {OPS} import fp8_paged_mqa_logits_torch as kernel"]
        call = ["logits = kernel(q, kv_cache, weights, context_lens, block_table, WIDTH)"]
    elif wanted.op == "paged_mqa_logits":
        load = ["import types", f"import {OPS} as ops"]
        call = [
            "workspace = types.SimpleNamespace(get_simultaneous=lambda *shapes: (logits,))",
            "ops.current_workspace_manager = lambda: workspace  # where the kernel asks for its output",
            "ops.rocm_fp8_paged_mqa_logits_triton(q, kv_cache, weights, context_lens, block_table, WIDTH)",
        ]
    elif wanted.op == "mqa_logits":
        load, call = [f"from {OPS} import fp8_mqa_logits_torch as kernel"], ["logits = kernel(q, (k, k_scale), weights, ks, ke)"]
    elif wanted.op == "topk_slots":
        topk = wanted.params["topk"]
        load = [f"from {SPARSE} import triton_convert_req_index_to_global_index as kernel"]
        call = [
            "kernel(",
            "    request_ids, block_table, topk_positions, BLOCK_SIZE=BLOCK_SIZE, BLOCK_STRIDE_ROWS=BLOCK_STRIDE,",
            f"    NUM_TOPK_TOKENS=TOPK, BLOCK_N={min(topk & -topk, WIDEST_TILE)}, out=slots,",
            ")",
        ]
    else:
        load, call = _tables(wanted, variant)
    room = rooms(parts.outputs, wanted.guards)
    return Called([*_triton(wanted), *load], [*room, *call], "vllm")


def _triton(wanted: Wanted) -> list[str]:
    """Lines that keep vLLM from turning Triton off where there is no back end for its platform."""
    if wanted.device != "cpu" or wanted.provider.endswith(":cpu"):
        return []
    return [
        "import types",
        "",
        "from triton.backends import backends",
        "",
        "active = types.SimpleNamespace(is_active=lambda: True)",
        'backends["cpu"] = types.SimpleNamespace(driver=active, compiler=None)  # or vLLM turns Triton off',
        "import vllm.triton_utils  # noqa: E402, F401",
        "",
        'del backends["cpu"]',
    ]


def _tables(wanted: Wanted, variant: str | None) -> tuple[list[str], list[str]]:
    if wanted.op != "block_table" or wanted.params["mapping"] != "write" or wanted.params["tokens_per_state"] != 1:
        raise NoScript(f"vLLM makes {wanted.op} in several classes of its model runner: more than a short script can hold")
    load = ["from vllm.v1.worker.block_table import BlockTable"]
    if variant == "cpu":
        load += [
            "from vllm.platforms import current_platform",
            "",
            "current_platform.import_kernels()",
            "current_platform.register_triton_kernel_overrides()",
        ]
    return load, [
        "made = BlockTable(",
        "    block_size=MANAGER, max_num_reqs=BATCH, max_num_blocks_per_req=block_table.shape[1],",
        "    max_num_batched_tokens=len(positions), pin_memory=False, device=block_table.device, cp_kv_cache_interleave_size=1,",
        ")",
        "for row, ids in enumerate(block_table.tolist()):",
        "    made.add_row(ids, row)",
        "made.commit_block_table(BATCH)",
        "starts = torch.tensor([0, *LIVE]).cumsum(0).int()",
        "made.compute_slot_mapping(BATCH, starts, positions[: sum(LIVE)].long())",
        "slots.copy_(made.slot_mapping.gpu)",
    ]
