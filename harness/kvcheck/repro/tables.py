"""Block tables: written out where they are small, as the code that makes them where they are not."""

from __future__ import annotations

from typing import Any

from kvcheck.repro import reduced
from kvcheck.repro.counted import Generator
from kvcheck.repro.parts import NoScript, literal

PADDING = {"wide_minus_one": -1, "wide_garbage": 2147480000}
EXTRA_COLUMNS = 7
SPARE_COLUMNS = 5
MOST = 60
"""Entries that are written out."""


def pool_size(kind: str, pages: list[int]) -> int:
    """Pages in the pool where the case does not say.

    Args:
        kind: name of the table.
        pages: pages of each request.
    """
    need = max(sum(pages), 1)
    return 2 * need + 8 if kind == "high_ids" else need + 3 + need // 8


def build(
    case: dict[str, Any], pages: list[int], num_blocks: int, seed: int, size: str, shift: int = 0, kind: str = "", freed: bool = False
) -> list[str]:
    """Lines that make `block_table`; in code, out of BATCH, CONTEXT and NUM_BLOCKS.

    Args:
        case: resolved params.
        pages: pages of each request.
        num_blocks: pages in the pool.
        seed: of the run's inputs.
        size: name of the constant that holds the tokens of a page.
        shift: what is added to the ids of a request's own pages.
        kind: name of the table, where it is not the case's.
        freed: whether the leading half of a request's pages is block 0 again.

    Raises:
        NoScript: a kind that is not known here.
    """
    kind = kind or case["block_table"]
    width = max([1, *pages]) + (EXTRA_COLUMNS if kind.startswith("wide_") else 0)
    if len(pages) * width <= MOST:
        rows = []
        for ids in reduced.ids(case, own(kind, pages, num_blocks, seed)):
            mine = [0 if freed and place < len(ids) // 2 else number + shift for place, number in enumerate(ids)]
            rows.append(mine + [PADDING.get(kind, 0)] * (width - len(ids)))
        return literal("block_table = torch.tensor(", rows, ", dtype=torch.int32)")
    lines = _code(kind, pages, num_blocks, shift) + reduced.table(case)
    if freed:
        lines += ["for row, pages in zip(block_table, PAGES):", "    row[: pages // 2] = 0  # blocks that were freed"]
    if any("PAGES" in line for line in lines):
        lines = [f"PAGES = [-(-n // {size}) for n in CONTEXT]", *lines]
    return lines


def own(kind: str, pages: list[int], num_blocks: int, seed: int) -> list[list[int]]:
    """The ids of each request's own pages.

    Raises:
        NoScript: a kind that is not known here.
    """
    generator, need = Generator(seed), sum(pages)
    if kind == "interleaved":
        turns = sorted((page, b) for b, count in enumerate(pages) for page in range(count))
        return [[number for number, (_, owner) in enumerate(turns) if owner == b] for b in range(len(pages))]
    if kind == "shared_prefix":
        return _shared(pages, generator.permutation("block_table", num_blocks))
    if kind == "contiguous":
        order = list(range(need))
    elif kind == "reversed":
        order = list(range(need - 1, -1, -1))
    elif kind == "fragmented":
        order = _fragmented(num_blocks, generator)
    elif kind == "high_ids":
        low = num_blocks - max(need, num_blocks // 2)
        order = [number + low for number in generator.permutation("block_table", num_blocks - low)]
    elif kind == "shuffled" or kind.startswith("wide_"):
        order = generator.permutation("block_table", num_blocks)
    else:
        raise NoScript(f"block_table {kind} has no short form")
    rows, taken = [], 0
    for count in pages:
        rows.append(order[taken : taken + count])
        taken += count
    return rows


def lay(kind: str) -> list[str]:
    """The line that gives a table the row stride of a wider one."""
    if kind == "width":
        return []
    pad = f"torch.nn.functional.pad(block_table, (0, {SPARE_COLUMNS}))"
    return [f"block_table = {pad}[:, : block_table.shape[1]]  # a slice of a wider table"]


def _fragmented(num_blocks: int, generator: Generator) -> list[int]:
    lengths = generator.integers("fragments", num_blocks, 1, 5)
    runs = [run for run, length in enumerate(lengths) for _ in range(length)][:num_blocks]
    rank = [0] * num_blocks
    for place, number in enumerate(generator.permutation("block_table", num_blocks)):
        rank[number] = place
    return sorted(range(num_blocks), key=lambda block: rank[runs[block]])


def _shared(pages: list[int], order: list[int]) -> list[list[int]]:
    """Each request keeps its last pages; the others are those of the longest."""
    longest = max(pages)
    owner, used, rows = pages.index(longest), longest, []
    for request, count in enumerate(pages):
        tail = 0 if request == owner else min(count, max(1, count // 4))
        rows.append(order[: count - tail] + order[used : used + tail])
        used += tail
    return rows


def _code(kind: str, pages: list[int], num_blocks: int, shift: int) -> list[str]:
    """Lines that make a table of random or regular ids."""
    plus, width = f" + {shift}" if shift else "", max(pages)
    if kind in ("interleaved", "shared_prefix"):
        lines = [f"block_table = torch.zeros(BATCH, {width}, dtype=torch.int32)"]
    if kind == "interleaved":
        return [
            *lines,
            "for number, (page, b) in enumerate(sorted((page, b) for b in range(BATCH) for page in range(PAGES[b]))):",
            f"    block_table[b, page] = number{plus}",
        ]
    if kind == "shared_prefix" and len(set(pages)) == 1:
        own, last = min(width, max(1, width // 4)), width + (len(pages) - 1) * min(width, max(1, width // 4))
        return [
            f'order = permutation("block_table", NUM_BLOCKS){plus}',
            f"block_table = order[:{width}].repeat(BATCH, 1).int()  # each request keeps its last pages",
            f"block_table[1:, {width - own} :] = order[{width}:{last}].view(-1, {own}).int()",
        ]
    if kind == "shared_prefix":
        return [
            *lines,
            f'order, used = permutation("block_table", NUM_BLOCKS){plus}, max(PAGES)',
            "for b in range(BATCH):  # each request keeps its last pages, the others are those of the longest",
            "    own = 0 if b == PAGES.index(max(PAGES)) else min(PAGES[b], max(1, PAGES[b] // 4))",
            "    block_table[b, : PAGES[b]] = torch.cat((order[: PAGES[b] - own], order[used : used + own]))",
            "    used += own",
        ]
    low = num_blocks - max(sum(pages), num_blocks // 2)
    lines = []
    order = {
        "contiguous": f"torch.arange({sum(pages)})",
        "reversed": f"torch.arange({sum(pages)}).flip(0)",
        "high_ids": f'(permutation("block_table", NUM_BLOCKS - {low}) + {low})',
        "fragmented": "order",
    }.get(kind, 'permutation("block_table", NUM_BLOCKS)')
    if kind == "fragmented":
        lines = [
            'ends = integers("fragments", NUM_BLOCKS, 1, 5).cumsum(0)  # runs of one to four pages in random order',
            "run = torch.searchsorted(ends, torch.arange(NUM_BLOCKS), right=True)",
            'order = permutation("block_table", NUM_BLOCKS).argsort()[run].sort(stable=True).indices',
        ]
    elif kind not in ("contiguous", "reversed", "high_ids", "shuffled") and not kind.startswith("wide_"):
        raise NoScript(f"block_table {kind} has no short form")
    padding, taken = PADDING.get(kind, 0), f"{order}[: {sum(pages)}]{plus}"
    if len(set(pages)) == 1:
        table = f"({taken}).view(BATCH, {width})" if plus else f"{taken}.view(BATCH, {width})"
    else:
        lines += [f"order = {taken}"]
        table = f"torch.nn.utils.rnn.pad_sequence(order.split(PAGES), True, {padding})"
    if kind.startswith("wide_"):
        table = f"torch.nn.functional.pad({table}, (0, {EXTRA_COLUMNS}), value={padding})"
    return [*lines, f"block_table = {table}.int()"]
