"""The rows of a sequence have their lengths in reverse: the first query token sees what the last should."""

from __future__ import annotations

from typing import Any, Callable

SPEC = {
    "name": "row_limits_reversed",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits"],
    "sentence": "row limits are reversed within a sequence (p <= context_len - j instead of context_len - next_n + j)",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        import torch

        lens, next_n = arguments["context_lens"], arguments["q"].shape[1]
        if lens.dim() == 1:
            back = torch.arange(next_n, device=lens.device, dtype=lens.dtype)
            lens = (lens[:, None] - back).clamp(min=0)
        else:
            lens = lens.flip(1)
        return function(**{**arguments, "context_lens": lens.contiguous()})

    return kernel
