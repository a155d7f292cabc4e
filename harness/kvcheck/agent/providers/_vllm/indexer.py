"""Decode indexer logits by vLLM's torch fallback, or by the Triton kernel of its block-flat caches."""

from __future__ import annotations

import types
from typing import Any

from kvcheck.agent.protocol import Unsupported
from kvcheck.agent.providers._vllm.load import Package

TILE = 64


def paged_torch(package: Package, tensors: tuple[Any, ...], max_model_len: int, out: Any) -> Any:
    """`fp8_paged_mqa_logits_torch`, which brings a tensor of its own: [batch * next_n, max_model_len] float32."""
    import torch

    torch.set_float32_matmul_precision("highest")
    return package.module("indexer_ops").fp8_paged_mqa_logits_torch(*tensors, max_model_len)


def paged_kernel(package: Package, tensors: tuple[Any, ...], max_model_len: int, out: Any) -> None:
    """`rocm_fp8_paged_mqa_logits_triton`; vLLM's workspace, which it asks for its output, is the guarded one.

    Raises:
        Unsupported: shapes that its tiles do not take.
    """
    if package.interpreted:
        raise Unsupported("Triton's interpreter loops over Python integers, with which this kernel's masks are not boolean: needs a GPU")
    module = package.module("indexer_ops")
    q, kv_cache = tensors[:2]
    if kv_cache.shape[1] % TILE:
        raise Unsupported(f"its tile of {TILE} tokens does not divide a page of {kv_cache.shape[1]}")
    if q.shape[2] & (q.shape[2] - 1) or q.shape[3] & (q.shape[3] - 1):
        raise Unsupported("its tiles are powers of two: num_heads and head_dim must be")
    module.current_workspace_manager = lambda: types.SimpleNamespace(get_simultaneous=lambda *shapes: (out,))
    module.rocm_fp8_paged_mqa_logits_triton(*tensors, max_model_len)
