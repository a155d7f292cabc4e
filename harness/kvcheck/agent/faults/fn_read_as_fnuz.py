"""FP8 bytes are read in the other format: values halved or doubled, and -0 turns into NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "fn_read_as_fnuz",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits", "mqa_logits"],
    "sentence": "reads e4m3fn bytes as e4m3fnuz (or the reverse): values are off by a factor of two",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""

    def kernel(**arguments: Any) -> Any:
        import torch

        other = "e4m3fnuz" if arguments["kv_dtype"] == "e4m3fn" else "e4m3fn"
        q = arguments["q"].view(torch.uint8).view({"e4m3fn": torch.float8_e4m3fn, "e4m3fnuz": torch.float8_e4m3fnuz}[other])
        return function(**{**arguments, "kv_dtype": other, "q": q})

    return kernel
