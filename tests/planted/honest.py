"""An honest `topk_per_row`, and when the planted providers beside it are to misbehave: at a k that no honest case uses.

A planted provider serves honest cases too, so that the case after its fault shows whether the run went on.
"""

from __future__ import annotations

import torch

FATAL = 7
"""The k at which a planted provider does what it is planted for."""


def topk_per_row(logits, context_lens, *, topk, next_n, out, alloc):
    """Positions of the k largest logits of every row, -1 where there is none."""
    for row in range(out.shape[0]):
        length = max(int(context_lens[row // next_n]) - next_n + 1 + row % next_n, 0)
        out[row] = -1
        chosen = torch.arange(length) if length <= topk else logits[row, :length].topk(topk).indices
        out[row, : len(chosen)] = chosen.int()
