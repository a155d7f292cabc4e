"""A second reference of `topk_per_row`, written independently: Python's own sort on (value, position) pairs.

Slow on purpose; tests hold the fast reference against it. Source: the contract in words; no code is shared with `topk_per_row`.
"""

from __future__ import annotations

import torch


def topk_per_row_naive(
    logits: torch.Tensor, context_lens: torch.Tensor, *, topk: int, next_n: int, out: object, alloc: object
) -> torch.Tensor:
    """Positions of the k largest logits, one row at a time.

    Args:
        logits: [rows, max_model_len] float32. Scores.  # [rows, max_model_len]
        context_lens: [batch] int32 lengths, or [batch, next_n] int32 per-row lengths.  # [batch] or [batch, next_n]
        topk: k.
        next_n: query tokens a sequence.
        out, alloc: not used.

    Returns:
        topk_positions: [rows, topk] int32. -1 where there is none.  # [rows, topk]
    """
    lens = context_lens.tolist()
    result = []
    for row, scores in enumerate(logits.tolist()):
        request, token = row // next_n, row % next_n
        entry = lens[request]
        length = max(entry[token] if isinstance(entry, list) else entry + token + 1 - next_n, 0)
        if length <= topk:
            chosen = list(range(length))
        else:
            pairs = sorted((-score, position) for position, score in enumerate(scores[:length]))
            chosen = [position for _, position in pairs[:topk]]
        result.append(chosen + [-1] * (topk - len(chosen)))
    return torch.tensor(result, dtype=torch.int32)
