"""Raises what Ctrl-C raises."""

from __future__ import annotations

import honest


def topk_per_row(logits, context_lens, *, topk, next_n, out, alloc):
    if topk == honest.FATAL:
        raise KeyboardInterrupt
    return honest.topk_per_row(logits, context_lens, topk=topk, next_n=next_n, out=out, alloc=alloc)
