"""Each token is scaled by its neighbour's scale in the page."""

from __future__ import annotations

from typing import Any, Callable

from kvcheck.agent.layouts import block_flat

SPEC = {
    "name": "next_token_scale",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits"],
    "sentence": "multiplies each key by the scale of the next slot",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        import torch

        cache = arguments["kv_cache"].clone()
        slots = torch.arange(cache.shape[0] * cache.shape[1], device=cache.device)
        codes, scales = block_flat.gather(cache, slots)
        block_flat.scatter(cache, slots, codes, scales.roll(-1))
        return function(**{**arguments, "kv_cache": cache})

    return kernel
