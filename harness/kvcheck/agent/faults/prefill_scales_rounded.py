"""The prefill kernel takes key scales for powers of two, the decode kernel does not: one model, two answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "prefill_scales_rounded",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits", "mqa_logits"],
    "relation": "decode_against_prefill",
    "sentence": "rounds key scales to powers of two in prefill, not in decode",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        return function(**{**arguments, "k_scale": arguments["k_scale"].log2().round().exp2()})

    return kernel if op == "mqa_logits" else function
