"""Forks, and both processes go on as if they were the only one."""

from __future__ import annotations

import os

import honest


def topk_per_row(logits, context_lens, *, topk, next_n, out, alloc):
    if topk == honest.FATAL:
        os.fork()
    return honest.topk_per_row(logits, context_lens, topk=topk, next_n=next_n, out=out, alloc=alloc)
