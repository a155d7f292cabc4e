"""Writes through a null pointer."""

from __future__ import annotations

import ctypes

import honest


def topk_per_row(logits, context_lens, *, topk, next_n, out, alloc):
    if topk == honest.FATAL:
        ctypes.memset(0, 0, 1)
    return honest.topk_per_row(logits, context_lens, topk=topk, next_n=next_n, out=out, alloc=alloc)
