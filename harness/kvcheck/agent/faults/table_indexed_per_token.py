"""The block table is indexed by token, as if a page held one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.agent.inputs import pitch
from kvcheck.agent.layouts import block_flat

SPEC = {
    "name": "table_indexed_per_token",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits"],
    "sentence": "indexes the block table by token position although a page holds block_size tokens (aiter before #4440 and #4825)",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it: it takes a page's first token for a token's own, as with pages of one token.

    Past the row of the table it reads what lies there in memory, and page 0 past the table's end, where the real kernel may die.
    """

    def kernel(**arguments: Any) -> Any:
        import torch

        cache, table, size = arguments["kv_cache"], arguments["block_table"], arguments["block_size"]
        longest = max(int(arguments["context_lens"].max()), 1)
        words = pitch.span(table).long()
        entry = torch.arange(len(table), device=cache.device)[:, None] * table.stride(0) + torch.arange(longest, device=cache.device)
        page = torch.where(entry < len(words), words[entry.clamp(max=len(words) - 1)], 0).clamp(0, cache.shape[0] - 1)
        codes, scales = block_flat.gather(cache, (page * size).flatten())
        flat = torch.zeros(len(codes), 1, 1, cache.shape[3], dtype=torch.uint8, device=cache.device)
        every = torch.arange(len(codes), device=cache.device)
        block_flat.scatter(flat, every, codes, scales)
        straight = every.to(torch.int32).view(len(table), longest)
        return function(**{**arguments, "kv_cache": flat, "block_table": straight, "block_size": 1})

    return kernel
