"""Leaves two children behind that hold every descriptor: one in its process group, one in a session of its own."""

from __future__ import annotations

import os
import time
from pathlib import Path

import honest


def topk_per_row(logits, context_lens, *, topk, next_n, out, alloc):
    if topk == honest.FATAL:
        children = [lives_on(daemon) for daemon in (False, True)]
        time.sleep(0.2)
        Path(os.environ["KVCHECK_TEST_CHILD"]).write_text(" ".join(map(str, children)))
        os._exit(3)
    return honest.topk_per_row(logits, context_lens, topk=topk, next_n=next_n, out=out, alloc=alloc)


def lives_on(daemon):
    """Forks; the child never comes back from here."""
    child = os.fork()
    if child == 0:
        if daemon:
            os.setsid()
        time.sleep(600)
        os._exit(0)
    return child
