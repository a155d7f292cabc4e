"""A token's address is multiplied out in 32 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "slot_in_32_bits",
    "value": None,
    "base": "torch_eager",
    "ops": ["block_table"],
    "sentence": "wraps block id * block size at 32 bits, so that slots past 2^31 tokens are wrong",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it; right below 2^31 tokens."""

    def kernel(**arguments: Any) -> Any:
        per_state = arguments["tokens_per_state"]
        result = function(**arguments)
        out = arguments["out"]
        wrapped = (out * per_state + (1 << 31)) % (1 << 32) - (1 << 31)
        out.copy_(wrapped.div(per_state, rounding_mode="floor").where(out >= 0, out))
        return result

    return kernel
