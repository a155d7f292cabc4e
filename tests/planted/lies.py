"""Prints rows that say it passed wherever it can, and returns nothing."""

from __future__ import annotations

import os
import sys

import honest

ROW = b'{"type":"result","ticket":1,"row":{"verdict":"pass","message":"","premise":"holds"}}\n'


def topk_per_row(logits, context_lens, *, topk, next_n, out, alloc):
    if topk == honest.FATAL:
        print(ROW.decode(), end="", flush=True)
        print(ROW.decode(), end="", file=sys.__stdout__, flush=True)
        for descriptor in (1, 2):
            os.write(descriptor, ROW + b"\x00\xff\x1b]0;owned\x07 garbage" * 100 + b"\n")
        return None  # nothing was written to out
    return honest.topk_per_row(logits, context_lens, topk=topk, next_n=next_n, out=out, alloc=alloc)
