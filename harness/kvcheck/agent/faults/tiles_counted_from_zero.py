"""Whole tiles are counted from column 0 and stored from the window's first column: the rest of the window is shifted past its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "tiles_counted_from_zero",
    "value": None,
    "base": "torch_eager",
    "ops": ["mqa_logits"],
    "sentence": "takes ke rounded down to 128 for the end of whole tiles that begin at ks; where ks is a multiple of 128 this is right",
}

TILE = 128


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it; what would land past the row is dropped."""

    def kernel(**arguments: Any) -> Any:
        ks, ke = arguments["ks"], arguments["ke"]
        whole = ke // TILE * TILE
        tiles = ((whole - ks + TILE - 1) // TILE).clamp(min=0) * TILE
        shift = ks + tiles - whole
        first = ks.where(tiles > 0, ks + (ks - whole))
        return function(**{**arguments, "ks": first, "ke": (ke + shift).where(ke > ks, ks)})

    return kernel
