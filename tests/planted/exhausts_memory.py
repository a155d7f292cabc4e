"""Takes memory until there is none left, and keeps it."""

from __future__ import annotations

import honest
import torch

HOARD = []


def topk_per_row(logits, context_lens, *, topk, next_n, out, alloc):
    if topk == honest.FATAL:
        while True:
            HOARD.append(torch.ones(64 << 20))
    return honest.topk_per_row(logits, context_lens, topk=topk, next_n=next_n, out=out, alloc=alloc)
