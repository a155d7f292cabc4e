"""The plain fp32 formula in torch: the honest kernel that most planted faults change.

Origin: kvcheck.
Hardware: whatever torch runs on.
"""

from __future__ import annotations

from typing import Any

SPEC = {
    "name": "torch_eager",
    "summary": "the plain fp32 formula in torch",
    "ops": [
        "block_table",
        "index_k_cache_gather",
        "index_k_cache_write",
        "mla_decode",
        "mla_metadata",
        "mqa_logits",
        "paged_mqa_logits",
        "topk_per_row",
        "topk_slots",
    ],
    "variants": {},
    "process": "shared",
    "origin": "kvcheck",
    "hardware": "any device of torch",
    "remedy": "none is needed: the agent itself runs on torch",
}


def paged_mqa_logits(
    q: Any,
    kv_cache: Any,
    weights: Any,
    context_lens: Any,
    block_table: Any,
    *,
    max_model_len: int,
    block_size: int,
    kv_dtype: str,
    out: Any,
    alloc: Any,
) -> None:
    """Gathers the keys of a sequence, and scores them against each of its query tokens."""
    import torch

    torch.set_float32_matmul_precision("highest")  # no TF32, whatever an environment variable asks for
    batch, next_n, _, head_dim = q.shape
    fp8 = {"e4m3fn": torch.float8_e4m3fn, "e4m3fnuz": torch.float8_e4m3fnuz}[kv_dtype]
    pages = kv_cache.view(kv_cache.shape[0], -1)
    values = pages[:, : block_size * head_dim].reshape(-1, head_dim)
    scales = pages[:, block_size * head_dim :].contiguous().view(torch.float32).flatten()
    for request in range(batch):
        for token in range(next_n):
            row = request * next_n + token
            length = int(context_lens[request, token]) if context_lens.dim() == 2 else int(context_lens[request]) - next_n + 1 + token
            position = torch.arange(max(length, 0), device=q.device)
            slot = block_table[request, position // block_size].long() * block_size + position % block_size
            key = values[slot].view(fp8).float()
            score = torch.relu(q[request, token].view(fp8).float() @ key.T * scales[slot])
            out[row, : len(position)] = (weights[row, :, None] * score).sum(0)
            out[row, len(position) :] = float("-inf")


def topk_per_row(logits: Any, context_lens: Any, *, topk: int, next_n: int, out: Any, alloc: Any) -> None:
    """A stable sort of each row that is longer than k."""
    import torch

    for row in range(logits.shape[0]):
        request, token = divmod(row, next_n)
        length = int(context_lens[request, token]) if context_lens.dim() == 2 else int(context_lens[request]) - next_n + 1 + token
        kept = min(max(length, 0), topk)
        if length <= topk:
            out[row, :kept] = torch.arange(kept, dtype=torch.int32, device=out.device)
        else:
            out[row] = logits[row, :length].sort(descending=True, stable=True).indices[:topk].int()
        out[row, kept:] = -1


def dispatch(op: str) -> str:
    """What ran."""
    return f"torch_eager.py {op} (torch)"


def precision(op: str, params: dict[str, Any], device: dict[str, Any]) -> str:
    """fp32 sums in any order; TF32 is switched off. An op whose file says more is asked."""
    import importlib

    if op in globals():
        return "fp32_any"
    declared = getattr(importlib.import_module(f"kvcheck.agent.providers._torch_eager.{op}"), "precision", None)
    return declared(params, device) if declared else "fp32_any"


def __getattr__(name: str) -> Any:
    """The functions of the other ops, one file each under `_torch_eager/`."""
    import importlib

    if name.startswith("_") or name not in SPEC["ops"]:
        raise AttributeError(name)
    return getattr(importlib.import_module(f"kvcheck.agent.providers._torch_eager.{name}"), name)
