"""aiter's MLA metadata by vLLM's own builder method, with the few attributes that it reads of a builder."""

from __future__ import annotations

import types
from typing import Any

from kvcheck.agent.protocol import Unsupported
from kvcheck.agent.providers._vllm.load import Package

HEADS = 16


def decode(
    package: Package,
    block_table: Any,
    context_lens: Any,
    page_size: int,
    block_size: int,
    kv_indptr: Any,
    kv_indices: Any,
    last_page_len: Any,
) -> None:
    """`AiterMLAMetadataBuilder._build_decode` for one query token a request, eager, no context parallelism.

    Args:
        block_table: [batch, width] int32. Page ids.
        context_lens: [batch] int32. Tokens of each request.
        page_size: must be 1: since vLLM #31282's code the kernel sees the cache as pages of one token.
        block_size: tokens a block of the table.
        kv_indptr: [batch + 1] int32. Written.
        kv_indices: [entries] int32. Written; the builder's own buffer.
        last_page_len: [batch] int32. Written.

    Raises:
        Unsupported: pages of several tokens.
    """
    import torch

    if page_size != 1:
        raise Unsupported("vLLM lists token slots for aiter's MLA decode: page_size 1")
    builder_class = package.module("aiter_mla").AiterMLAMetadataBuilder
    batch, device = len(context_lens), context_lens.device
    builder = types.SimpleNamespace(
        device=device,
        kernel_block_size=block_size,
        paged_kv_indices=kv_indices,
        paged_kv_last_page_len=torch.ones(batch, dtype=torch.int32, device=device),
        compilation_config=types.SimpleNamespace(cudagraph_mode=types.SimpleNamespace(has_full_cudagraphs=lambda: False)),
        dcp_world_size=1,
        dcp_rank=0,
        decode_attn_out_dtype=torch.bfloat16,
        _asm_dcp_verify=False,
        _asm_dcp_verify_heads=0,
        _decode_causal=True,
        _decode_num_heads=HEADS,
        _graph_seq_lens=None,
        _kv_cache_bytes=None,
        _kv_cache_dtype_str="auto",
        _mla_max_split_per_batch=0,
        _mtp_decode_qlen=0,  # the persistent schedule is aiter's own and not part of these lists
        _supports_segmented_dcp_verify=False,
        _uniform_padded_mtp_qo_len=lambda *_: 0,
    )
    starts = torch.arange(batch + 1, dtype=torch.int32)
    made = builder_class._build_decode(
        builder, block_table, context_lens, int(context_lens.max()), starts, starts.to(device), batch, 1, None
    )
    kv_indptr.copy_(made.paged_kv_indptr)
    last_page_len.copy_(made.paged_kv_last_page_len)
