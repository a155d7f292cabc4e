"""The rows of a sequence have their lengths in reverse: the first query token sees what the last should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "row_limits_reversed",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits"],
    "sentence": "row limits are reversed within a sequence (p <= context_len - j instead of context_len - next_n + j)",
}

TILE = 64
"""Columns a step of aiter's stage1, which does not write the step after the last token."""


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it: row j has ctx - j + 1 positions where a tile reaches, and 0 past the context."""

    def kernel(**arguments: Any) -> Any:
        import torch

        lens, next_n = arguments["context_lens"], arguments["q"].shape[1]
        if lens.dim() == 2:
            return function(**{**arguments, "context_lens": lens.flip(1).contiguous()})
        back = torch.arange(next_n, device=lens.device, dtype=lens.dtype)
        limits = torch.minimum((lens[:, None] - back + 1).clamp(min=0), lens[:, None])
        function(**{**arguments, "context_lens": limits.contiguous()})
        out = arguments["out"]
        for request, length in enumerate(lens.tolist()):
            if length % TILE and length < out.shape[1]:
                out[request * next_n, length] = 0.0

    return kernel
