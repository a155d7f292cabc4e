"""Reference of `topk_per_row`: positions of the k largest logits of every row, by a stable sort.

Source: ROCm/aiter@e4048607a5 aiter/ops/topk.py and csrc topk_per_row_kernels.cu; vllm-project/vllm csrc/topk.cu. Differences:
(1) ties go to the lowest position; (2) the order is by value, largest first, where the kernels leave it open.
"""

from __future__ import annotations

import torch


def topk_per_row(
    logits: torch.Tensor, context_lens: torch.Tensor, *, topk: int, next_n: int, out: object, alloc: object
) -> torch.Tensor:
    """Positions of the k largest logits.

    Args:
        logits: [rows, max_model_len] float32. Scores; nothing at or past a row's length is looked at.  # [rows, max_model_len]
        context_lens: [batch] int32 lengths, or [batch, next_n] int32 per-row lengths.  # [batch] or [batch, next_n]
        topk: k.
        next_n: query tokens a sequence.
        out, alloc: not used.

    Returns:
        topk_positions: [rows, topk] int32. -1 where there is none.  # [rows, topk]

    Conventions: a row that is not longer than k is 0, 1, ..., L - 1, then -1. -inf inside a row is its lowest value.
    """
    lengths = context_lens.long()
    if lengths.dim() == 1:
        lengths = lengths[:, None] - next_n + 1 + torch.arange(next_n, device=logits.device)
    positions = torch.full((logits.shape[0], topk), -1, dtype=torch.int32, device=logits.device)
    for row, length in enumerate(lengths.flatten().tolist()):
        if length <= 0:
            continue
        if length <= topk:
            positions[row, :length] = torch.arange(length, dtype=torch.int32, device=logits.device)
        else:
            order = torch.sort(logits[row, :length], descending=True, stable=True).indices
            positions[row] = order[:topk].int()
    return positions
