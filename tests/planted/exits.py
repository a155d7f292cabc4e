"""Calls sys.exit, as a script does."""

from __future__ import annotations

import sys

import honest


def topk_per_row(logits, context_lens, *, topk, next_n, out, alloc):
    if topk == honest.FATAL:
        sys.exit(0)
    return honest.topk_per_row(logits, context_lens, topk=topk, next_n=next_n, out=out, alloc=alloc)
