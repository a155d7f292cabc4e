"""Ends as a process does that the system kills for its memory."""

from __future__ import annotations

import os
import signal

import honest


def topk_per_row(logits, context_lens, *, topk, next_n, out, alloc):
    if topk == honest.FATAL:
        os.kill(os.getpid(), signal.SIGKILL)
    return honest.topk_per_row(logits, context_lens, topk=topk, next_n=next_n, out=out, alloc=alloc)
