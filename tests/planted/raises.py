"""Raises, with text that would colour a terminal."""

from __future__ import annotations

import honest


def topk_per_row(logits, context_lens, *, topk, next_n, out, alloc):
    if topk == honest.FATAL:
        raise ValueError("no kernel for \x1b[31mthis\x1b[0m shape")
    return honest.topk_per_row(logits, context_lens, topk=topk, next_n=next_n, out=out, alloc=alloc)
