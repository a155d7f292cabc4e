"""Planted faults, one a file: `plant(function, op, value)` returns the kernel with the fault in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def rows(arguments: dict[str, Any]) -> Iterator[tuple[int, int, int]]:
    """Rows of a call of either op.

    Args:
        arguments: the op's keyword arguments.

    Yields:
        row, context_len of its sequence (the longest per-row length), promised length of the row.
    """
    lens = arguments["context_lens"]
    next_n = arguments["q"].shape[1] if "q" in arguments else arguments["next_n"]
    for request, entry in enumerate(lens.tolist()):
        for j in range(next_n):
            length = entry[j] if isinstance(entry, list) else entry - next_n + 1 + j
            yield request * next_n + j, max(entry) if isinstance(entry, list) else entry, max(length, 0)


def spoil(function: Callable[..., Any], chosen: Callable[[int], bool]) -> Callable[..., Any]:
    """A kernel that is wrong, everywhere and by a lot, in the rows of sequences whose context_len is chosen."""

    def kernel(**arguments: Any) -> Any:
        result = function(**arguments)
        out = arguments["out"] if result is None else result
        for row, context_len, length in rows(arguments):
            if length and chosen(context_len):
                if out.dtype.is_floating_point:
                    line = out[row, :length]
                    out[row, :length] = -2 * line.abs().max() - 1 - line
                else:
                    out[row, :1] = length
        return result

    return kernel


def mla_lengths(arguments: dict[str, Any]) -> list[int]:
    """Tokens of each request of a call."""
    first, last, size = arguments["kv_indptr"].tolist(), arguments["last_page_len"].tolist(), arguments["page_size"]
    return [max((b - a - 1) * size + n, 0) if b > a else 0 for a, b, n in zip(first, first[1:], last, strict=False)]


def mla_slots(arguments: dict[str, Any], request: int, count: int) -> Any:
    """The slots of a request's first tokens; past its own pages, of whatever the list holds next.

    Args:
        arguments: keywords of `mla_decode`.
        request: number of the request.
        count: tokens.

    Returns:
        slots: [count] int64.
    """
    import torch

    size, indices = arguments["page_size"], arguments["kv_indices"]
    position = torch.arange(count, device=indices.device)
    entry = (int(arguments["kv_indptr"][request]) + position // size).clamp(max=max(len(indices) - 1, 0))
    total = arguments["kv_cache"].shape[0] * size
    return (indices[entry].long() * size + position % size).clamp(0, total - 1)


def mla_rows(function: Callable[..., Any], arguments: dict[str, Any], listed: Callable[[int, int, int], Any]) -> tuple[Any, Any]:
    """The kernel with a list of slots for each query row: page size 1, one query token a request.

    Args:
        function: the honest kernel.
        arguments: keywords of `mla_decode`.
        listed: slots of a row, of (request, query token, honest length of the row).

    Returns:
        out: [batch, next_n, num_heads, head_dim_v] of the output's dtype.
        lse: [batch, next_n, num_heads] float32.
    """
    import torch

    q, cache = arguments["q"], arguments["kv_cache"]
    batch, next_n = q.shape[:2]
    lists = []
    for request, length in enumerate(mla_lengths(arguments)):
        for token in range(next_n):
            lists.append(listed(request, token, max(length - next_n + 1 + token, 0)))
    counts = torch.tensor([0] + [len(each) for each in lists]).cumsum(0)
    out, lse = torch.empty_like(arguments["out"]), torch.empty_like(arguments["lse"])
    function(
        **{
            **arguments,
            "q": q.reshape(batch * next_n, 1, *q.shape[2:]),
            "kv_cache": cache.reshape(-1, 1, 1, cache.shape[-1]),
            "kv_indptr": counts.to(q.device, torch.int32),
            "kv_indices": torch.cat(lists).to(torch.int32),
            "last_page_len": torch.ones(batch * next_n, dtype=torch.int32, device=q.device),
            "page_size": 1,
            "out": out.view(batch * next_n, 1, *out.shape[2:]),
            "lse": lse.view(batch * next_n, 1, lse.shape[2]),
        }
    )
    return out, lse
