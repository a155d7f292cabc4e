"""Only the last tile of a sequence is cut at a row's limit: a row whose limit lies in the tile before shows a later token's score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.agent import faults

SPEC = {
    "name": "only_last_tile_cut",
    "value": "int",
    "candidates": [64, 128, 256, 16, 32],
    "base": "torch_eager",
    "ops": ["paged_mqa_logits"],
    "sentence": "cuts rows at their limit in the last tile of V columns only; rows that end in the tile before show later tokens",
}


def plant(function: Callable[..., Any], op: str, value: int) -> Callable[..., Any]:
    """The kernel with the fault in it; V is the tile (128 in aiter's Gluon kernels of 2026-08-22)."""

    def kernel(**arguments: Any) -> Any:
        tile = value or 128
        function(**arguments)
        q, lens = arguments["q"], arguments["context_lens"]
        whole = lens[:, None].expand(-1, q.shape[1]) if lens.dim() == 1 else lens.amax(1, keepdim=True).expand_as(lens)
        uncut = arguments["alloc"](arguments["out"].shape, arguments["out"].dtype, float("-inf"))
        function(**{**arguments, "context_lens": whole.contiguous(), "out": uncut})
        for row, context_len, length in faults.rows(arguments):
            last = (context_len - 1) // tile * tile
            arguments["out"][row, length:last] = uncut[row, length:last]

    return kernel
