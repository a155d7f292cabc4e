"""Block tables: where the pages of each request lie in the pool, and what pads the table."""

from __future__ import annotations

from typing import Any

SPEC = {
    "choices": {
        "contiguous": {"doc": "pages 0, 1, 2, ... request after request: blind to most indexing faults"},
        "reversed": {"doc": "the contiguous table backwards, over all requests"},
        "shuffled": {"doc": "a random permutation of the whole pool"},
        "fragmented": {"doc": "runs of one to four pages in random order"},
        "interleaved": {"doc": "requests alternate page by page", "needs": {"batch": 2}},
        "shared_prefix": {"doc": "requests share their leading pages, as prefix caching does; tails are their own", "needs": {"batch": 2}},
        "high_ids": {"doc": "the top of the pool, shuffled; the low half is poison"},
        "wide_zero": {"doc": "shuffled, with seven more columns than needed, padded with 0"},
        "wide_minus_one": {"doc": "shuffled, with seven more columns than needed, padded with -1"},
        "wide_garbage": {"doc": "shuffled, with seven more columns than needed, padded with 2147480000"},
        "sliding_window": {
            "doc": "shuffled; the leading half of each request's entries is the null block 0 again",
            "ops": ["block_table"],
        },
        "past_2_31": {"doc": "shuffled ids whose tokens lie past 2^31: 32-bit addresses wrap", "ops": ["block_table"]},
        "five_seven_two": {"doc": "the first request's ids are 5, 7, 2, the example of vLLM 58858", "ops": ["block_table"]},
    }
}

PADDING = {"wide_minus_one": -1, "wide_garbage": 2147480000}
"""What the table holds in columns past a request's own pages; 0 for every other kind."""

EXTRA_COLUMNS = 7


def pool_size(kind: str, pages: list[int]) -> int:
    """How many blocks the pool holds when the case does not say: what is needed, and spares that are poison.

    Args:
        kind: name of the table.
        pages: pages of each request.
    """
    need = max(sum(pages), 1)
    return 2 * need + 8 if kind == "high_ids" else need + 3 + need // 8


def build(kind: str, pages: list[int], num_blocks: int, generator: Any) -> Any:
    """The block table of a batch.

    Args:
        kind: a choice of SPEC.
        pages: pages of each request.
        num_blocks: pages in the pool.
        generator: an `inputs.random.Generator`.

    Returns:
        block_table: [batch, width] int32. Page ids; width is the widest request's pages (at least 1), wide kinds have more.

    Raises:
        ValueError: the pool is too small.
    """
    import torch

    need = sum(pages)
    if kind == "shared_prefix":
        return _padded(_shared(pages, num_blocks, generator), kind)
    if need > num_blocks:
        raise ValueError(f"num_blocks is {num_blocks}, the requests need {need} pages")
    if kind == "contiguous":
        order = torch.arange(need)
    elif kind == "reversed":
        order = torch.arange(need - 1, -1, -1)
    elif kind == "interleaved":
        return _padded(_interleaved(pages), kind)
    elif kind == "fragmented":
        order = _fragmented(num_blocks, generator)[:need]
    elif kind == "high_ids":
        low = num_blocks - max(need, num_blocks // 2)
        order = generator.permutation("block_table", num_blocks - low)[:need] + low
    else:
        order = generator.permutation("block_table", num_blocks)[:need]
    return _padded(list(torch.split(order, pages)), kind)


def _padded(rows: list[Any], kind: str) -> Any:
    import torch

    width = max([1] + [len(row) for row in rows]) + (EXTRA_COLUMNS if kind.startswith("wide_") else 0)
    table = torch.full((len(rows), width), PADDING.get(kind, 0), dtype=torch.int32)
    for line, row in zip(table, rows, strict=True):
        line[: len(row)] = row.to(torch.int32)
    return table


def _interleaved(pages: list[int]) -> list[Any]:
    import torch

    ids: list[list[int]] = [[] for _ in pages]
    next_id = 0
    for column in range(max(pages, default=0)):
        for request, count in enumerate(pages):
            if column < count:
                ids[request].append(next_id)
                next_id += 1
    return [torch.tensor(row, dtype=torch.int64) for row in ids]


def _fragmented(num_blocks: int, generator: Any) -> Any:
    import torch

    lengths = generator.integers("fragments", num_blocks, 1, 5).cumsum(0)
    run = torch.searchsorted(lengths, torch.arange(num_blocks), right=True)
    rank = torch.empty(num_blocks, dtype=torch.int64)
    rank[generator.permutation("block_table", num_blocks)] = torch.arange(num_blocks)
    return torch.sort(rank[run], stable=True).indices


def _shared(pages: list[int], num_blocks: int, generator: Any) -> list[Any]:
    """Each request keeps its last page; as many leading pages as the shortest pair allows are the first request's own."""
    import torch

    longest = max(pages)
    owner = pages.index(longest)
    prefix = [max(count - max(1, count // 4), 0) for count in pages]
    need = longest + sum(c - p for i, (c, p) in enumerate(zip(pages, prefix, strict=True)) if i != owner)
    if need > num_blocks:
        raise ValueError(f"num_blocks is {num_blocks}, the requests need {need} pages")
    order = generator.permutation("block_table", num_blocks)
    base, used, rows = order[:longest], longest, []
    for request, (count, shared) in enumerate(zip(pages, prefix, strict=True)):
        if request == owner:
            rows.append(base)
            continue
        rows.append(torch.cat([base[:shared], order[used : used + count - shared]]))
        used += count - shared
    return rows
