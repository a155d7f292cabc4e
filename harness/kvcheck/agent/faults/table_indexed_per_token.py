"""The block table is indexed by token, as if a page held one."""

from __future__ import annotations

from typing import Any, Callable

from kvcheck.agent.layouts import block_flat

SPEC = {
    "name": "table_indexed_per_token",
    "value": None,
    "base": "torch_eager",
    "ops": ["paged_mqa_logits"],
    "sentence": "indexes the block table by token position although a page holds block_size tokens (aiter before #4440 and #4825)",
}


def plant(function: Callable[..., Any], op: str, value: None) -> Callable[..., Any]:
    """The kernel with the fault in it; positions past the table's width wrap, where the real kernel reads what lies there."""

    def kernel(**arguments: Any) -> Any:
        import torch

        cache, table, size = arguments["kv_cache"], arguments["block_table"].long(), arguments["block_size"]
        longest = max(int(arguments["context_lens"].max()), 1)
        position = torch.arange(longest, device=cache.device)
        page = table[:, position % table.shape[1]].clamp(0, cache.shape[0] - 1)
        codes, scales = block_flat.gather(cache, (page * size + position % size).flatten())
        flat = torch.zeros(len(codes), 1, 1, cache.shape[3], dtype=torch.uint8, device=cache.device)
        every = torch.arange(len(codes), device=cache.device)
        block_flat.scatter(flat, every, codes, scales)
        straight = every.to(torch.int32).view(len(table), longest)
        return function(**{**arguments, "kv_cache": flat, "block_table": straight, "block_size": 1})

    return kernel
