"""The radix selection leaves its last digit out: numbers that differ in the low eight bits count as ties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "keys_cut_to_24_bits",
    "value": None,
    "base": "triton",
    "ops": ["topk_per_row"],
    "sentence": "selects by the upper 24 bits of a logit: what differs below counts as a tie",
}

EDITS = {
    "topk_per_row": (
        ("        prefix, wanted = _digit(line, length, prefix, wanted, 0, False, LANES)\n", ""),
        ("key == prefix", "(key >> 8) == prefix"),
        ("key > prefix)", "(key >> 8) > prefix)"),
    ),
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """Our Triton kernel with the fault in its source."""
    from kvcheck.agent.kernels.edited import edited

    return edited(op, *EDITS[op])
