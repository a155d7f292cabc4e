"""FP8 codes are used without their scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "scale_missing",
    "value": None,
    "base": "torch_eager",
    "ops": ["mla_decode"],
    "sentence": "uses the FP8 codes of the cache without their scale",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        import torch

        cache = arguments["kv_cache"]
        if arguments["kv_format"] == "fp8_656":
            cache = cache.clone()
            cache[..., 512:528] = torch.ones(4, device=cache.device).view(torch.uint8)
        function(**{**arguments, "kv_cache": cache, "kv_scale": 1.0})

    return kernel
