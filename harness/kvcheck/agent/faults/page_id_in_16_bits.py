"""Page ids are kept in 16 bits: the pages of a pool of more than 65,536 are those of its beginning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPEC = {
    "name": "page_id_in_16_bits",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits", "index_k_cache_gather", "mla_decode"],
    "relation": "low_against_high_ids",
    "sentence": "keeps page ids in 16 bits, so that pages past 65,536 are read from the beginning of the pool",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it."""
    name = "kv_indices" if op == "mla_decode" else "block_table"

    def kernel(**arguments: Any) -> Any:
        return function(**{**arguments, name: arguments[name] & 0xFFFF})

    return kernel
