"""aiter's own MLA decode on a ROCm machine: `aiter.mla.mla_decode_fwd`, whose kernels are hand-written assembly.

It writes `o` in place and counts pages in kv_indptr; the length of a request is (pages - 1) * page_size + kv_last_page_lens. It answers a
natural lse only where it takes return_lse. Read, and held against the package's source; never run: it needs an AMD card.

Source: ROCm/aiter@e4048607a5 aiter/mla.py mla_decode_fwd; the wheel 0.1.7.post2.dev18.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from kvcheck.agent.protocol import Unsupported

REQUIRED = ("q", "kv_buffer", "o", "qo_indptr", "kv_indptr", "kv_indices", "kv_last_page_lens", "max_seqlen_q")
"""Arguments without which the call means nothing."""

OPTIONAL = ("page_size", "nhead_kv", "sm_scale", "num_kv_splits", "return_lse")
"""Arguments that some commits have; the others' defaults mean the same, but for the lse."""


def has_lse(function: Callable[..., Any]) -> bool:
    """Whether this commit can be asked for the lse."""
    return "return_lse" in inspect.signature(function).parameters


def call(
    function: Callable[..., Any],
    q: torch.Tensor,
    kv_cache: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    last_page_len: torch.Tensor,
    *,
    page_size: int,
    softmax_scale: float,
    kv_format: str,
    num_splits: int,
    out: torch.Tensor,
    lse: torch.Tensor,
) -> None:
    """One call, with the op's tensors.

    Args:
        function: `aiter.mla.mla_decode_fwd`.
        q: [batch, next_n, num_heads, head_dim] bfloat16.
        kv_cache: [num_pages, page_size, 1, row_bytes] uint8.
        kv_indptr: [batch + 1] int32.
        kv_indices: [entries] int32.
        last_page_len: [batch] int32.
        page_size: tokens a page.
        softmax_scale: factor of the scores; its own default is 576**-0.5, so it is always given.
        kv_format: layout of the cache.
        num_splits: parts asked for.
        out: [batch, next_n, num_heads, head_dim_v] bfloat16. Written.
        lse: [batch, next_n, num_heads] float32. Written where the commit answers one.

    Raises:
        Unsupported: a format or a request it is not written for, or a commit whose signature is not known here.
    """
    if kv_format != "bf16":
        raise Unsupported(f"aiter's mla_decode_fwd is called with bf16 latents and queries here, not {kv_format}")
    batch, next_n, heads, dim = q.shape
    lens = torch.where(kv_indptr[1:] > kv_indptr[:-1], (kv_indptr[1:] - kv_indptr[:-1] - 1) * page_size + last_page_len, 0)
    if bool((lens < next_n).any()):
        raise Unsupported("what aiter's mla_decode_fwd leaves for a request shorter than its query is not specified")
    parameters = inspect.signature(function).parameters
    missing = [name for name in REQUIRED if name not in parameters]
    if missing:
        raise Unsupported(f"mla_decode_fwd{inspect.signature(function)} has no parameter {', '.join(missing)}")
    given = {
        "q": q.view(batch * next_n, heads, dim),
        "kv_buffer": kv_cache.view(torch.bfloat16).view(len(kv_cache), page_size, 1, dim),
        "o": out.view(batch * next_n, heads, out.shape[3]),
        "qo_indptr": torch.arange(0, batch * next_n + 1, next_n, dtype=torch.int32, device=q.device),
        "kv_indptr": kv_indptr,
        "kv_indices": kv_indices,
        "kv_last_page_lens": last_page_len,
        "max_seqlen_q": next_n,
    }
    offered = {"page_size": page_size, "nhead_kv": 1, "sm_scale": softmax_scale, "num_kv_splits": num_splits, "return_lse": True}
    given |= {name: offered[name] for name in OPTIONAL if name in parameters}
    answered = function(**given)
    if has_lse(function):
        lse.copy_(answered[1].view(batch, next_n, heads))
