"""Which physical slot a wrong logit was read from: the kernel once more, on keys whose logit is the number of their slot."""

from __future__ import annotations

from typing import Any

import torch

from kvcheck.agent.inputs.arena import is_sentinel
from kvcheck.agent.inputs.bundle import Inputs

VALUES = "beacon_slot"
SHOWN = 3


def said(inputs: Inputs, logits: Any) -> str:
    """What logits of slot beacons say about addresses.

    Args:
        inputs: the call, whose `values` are beacon_slot.
        logits: [rows, max_model_len] float32. What the kernel left, on the CPU.
    """
    table, size = inputs.tensors["block_table"].long(), inputs.block_size
    batch = len(table)
    next_n = len(logits) // batch
    position = torch.arange(logits.shape[1])
    inside = position < inputs.row_lengths[:, None]
    entry = table[:, (position // size).clamp(max=table.shape[1] - 1)] * size + position % size
    expected = entry.repeat_interleave(next_n, 0)
    wrong = inside & (logits.double() != expected.double())
    count = int(wrong.sum())
    if not count:
        return "on slot beacons of the same case every logit is right, so that every key is read from its own slot"
    owner = _owners(inputs, table, size, batch, next_n)
    pool = len(inputs.tensors["kv_cache"]) * size
    texts = []
    for row, at in wrong.nonzero()[:SHOWN].tolist():
        place = f"position {at}" if len(logits) == 1 else f"row {row} position {at}"
        texts.append(f"{place}: expected slot {int(expected[row, at])}, {_read(logits[row, at], owner, pool)}")
    return f"on slot beacons of the same case {count} of {int(inside.sum())} logits are wrong: {'; '.join(texts)}"


def _read(value: Any, owner: dict[int, tuple[int, int]], pool: int) -> str:
    if bool(is_sentinel(value[None])[0]):
        return "never written"
    number = float(value)
    if not 0 <= number < pool or number != int(number):
        return f"got {number:g}, which is no slot"
    slot = int(number)
    if slot in owner:
        request, position = owner[slot]
        return f"read slot {slot} (request {request} position {position})"
    return f"read slot {slot} (no token of this batch is there)"


def _owners(inputs: Inputs, table: Any, size: int, batch: int, next_n: int) -> dict[int, tuple[int, int]]:
    """Which token lies in a slot."""
    longest = inputs.row_lengths.view(batch, next_n).amax(1).tolist()
    found: dict[int, tuple[int, int]] = {}
    for request, length in enumerate(longest):
        position = torch.arange(length)
        for at, slot in enumerate((table[request, position // size] * size + position % size).tolist()):
            found.setdefault(slot, (request, at))
    return found
