"""Closes every descriptor there is, the agent's own ones too."""

from __future__ import annotations

import os

import honest


def topk_per_row(logits, context_lens, *, topk, next_n, out, alloc):
    if topk == honest.FATAL:
        os.closerange(0, 4096)
    return honest.topk_per_row(logits, context_lens, topk=topk, next_n=next_n, out=out, alloc=alloc)
