"""Says that it cannot serve a case, with an exception class of its own."""

from __future__ import annotations

import honest


class Unsupported(Exception):
    """Any exception of this name counts."""


def topk_per_row(logits, context_lens, *, topk, next_n, out, alloc):
    if topk == honest.FATAL:
        raise Unsupported("k below 8 needs another kernel")
    return honest.topk_per_row(logits, context_lens, topk=topk, next_n=next_n, out=out, alloc=alloc)
