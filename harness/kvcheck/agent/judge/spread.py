"""Where the wrong elements of an output lie, small enough to be kept with every failing row: rows, positions, pages of the pool.

Runs are text: `3 8-15 64-127/20` is element 3, all of 8 to 15, and 20 elements between 64 and 127. Where there are more runs than are
kept, those with the smallest gaps between them become one, so that what is kept always covers everything that is wrong.
"""

from __future__ import annotations

from typing import Any

import torch

ROWS = 24
"""Groups of equal rows that are kept."""

LOOKED_AT = 256
"""Wrong rows that are looked at, from the first on."""

RUNS = 96
"""Runs that are kept of all rows together."""

PAGES = 48
"""Runs of pages that are kept."""


def wrong(evidence: Any, bad: Any, *, axes: tuple[str, str] | None = None, pages: dict[str, Any] | None = None) -> dict[str, Any]:
    """What is wrong of one output.

    Args:
        evidence: both sides.
        bad: bool. Wrong elements, of the output's shape; any other with one or two axes where `axes` names them.
        axes: what rows and columns are.
        pages: `block_size`, `pool` (pages there are), `blocks` and `used` (page numbers, any order): None where rows are not positions of
            a paged cache, whose pages are found here.

    Returns:
        wrong: {output, axes, shape, rows: [{rows, wrong, inside}], more_rows}, and with pages block_size, pool, blocks and used. `inside`
            are the promised elements of those rows, where known.
    """
    inside = evidence.inside() if bad.shape == evidence.actual.shape else None
    by_position = axes is None and evidence.row_lengths is not None and bad.dim() == 2
    if axes is None:
        names = evidence.inputs.axes.get(evidence.output) or tuple(f"axis {n}" for n in range(bad.dim()))
        axes = ("row", "position") if by_position else _names(names)
    if by_position and pages is None and evidence.inputs.block_size and "block_table" in evidence.inputs.tensors:
        pages = _pages(evidence, bad.cpu())
    flat = _flat(bad).cpu()
    promised = None if inside is None or inside.shape != bad.shape else _flat(inside).cpu()
    listed, more = _rows(flat, promised)
    found = {"output": evidence.output, "axes": list(axes), "shape": list(flat.shape), "rows": listed, "more_rows": more}
    if pages:
        numbers = {name: _numbers(pages[name], PAGES) for name in ("blocks", "used")}
        found |= {"block_size": pages["block_size"], "pool": pages["pool"], **numbers}
    return found


def runs(mask: Any, limit: int) -> str:
    """The true elements of a vector as text.

    Args:
        mask: [n] bool.
        limit: runs at most.
    """
    return _joined(mask.nonzero().flatten(), limit)


def _names(names: tuple[str, ...]) -> tuple[str, str]:
    """Rows and columns of an output: a value's own last axis is looked through where there are four."""
    if len(names) == 1:
        return "", names[0]
    kept = names[:-1] if len(names) > 3 else names
    return ", ".join(kept[:-1]), kept[-1]


def _flat(mask: Any) -> Any:
    """[rows, columns] of an output with any number of axes."""
    if mask.dim() > 3:
        mask = mask.any(-1)
    return mask.reshape(1, -1) if mask.dim() < 2 else mask.flatten(0, -2)


def _rows(bad: Any, inside: Any) -> tuple[list[dict[str, str]], int]:
    """Groups of neighbouring rows that are wrong alike, and how many wrong rows are left out."""
    numbers = bad.any(1).nonzero().flatten().tolist()
    each = max(RUNS // max(min(len(numbers), ROWS), 1), 4)
    groups: list[tuple[list[int], tuple[str, ...]]] = []
    kept = 0
    for number in numbers[:LOOKED_AT]:
        text = (runs(bad[number], each), *([] if inside is None else [runs(inside[number], each)]))
        if groups and groups[-1][1] == text and groups[-1][0][1] == number - 1:
            groups[-1][0][1] = number
        elif len(groups) == ROWS:
            break
        else:
            groups.append(([number, number], text))
        kept += 1
    listed = [dict(zip(("rows", "wrong", "inside"), (_run(*ends), *text), strict=False)) for ends, text in groups]
    return listed, len(numbers) - kept


def _pages(evidence: Any, bad: Any) -> dict[str, Any]:
    """Pages that hold wrong positions, and pages that the rows see at all."""
    table, size = evidence.inputs.tensors["block_table"].long(), evidence.inputs.block_size
    lengths = evidence.row_lengths.cpu()
    entry = torch.arange(table.shape[1])
    seen = entry < -(-lengths // size)[:, None]
    width = min(table.shape[1] * size, bad.shape[1])
    padded = torch.zeros(len(bad), table.shape[1] * size, dtype=torch.bool)
    padded[:, :width] = bad[:, :width]
    hit = padded.view(len(bad), table.shape[1], size).any(2) & seen
    numbers = table.repeat_interleave(len(bad) // len(table), 0)
    pool = len(evidence.inputs.tensors["kv_cache"]) if "kv_cache" in evidence.inputs.tensors else None
    return {"block_size": size, "pool": pool, "blocks": numbers[hit], "used": numbers[seen]}


def _numbers(values: Any, limit: int) -> str:
    return _joined(values.cpu().long().unique(), limit)


def _joined(at: Any, limit: int) -> str:
    """Runs of ascending numbers, at most `limit`: the widest gaps stay."""
    if not len(at):
        return ""
    gaps = at[1:] - at[:-1]
    breaks = (gaps > 1).nonzero().flatten()
    if len(breaks) >= limit:
        breaks = breaks[gaps[breaks].sort(descending=True, stable=True).indices[: limit - 1]].sort().values
    ends = torch.cat([breaks, torch.tensor([len(at) - 1])])
    starts = torch.cat([torch.tensor([0]), breaks + 1])
    held = (ends - starts + 1).tolist()
    return " ".join(_run(*both, count) for *both, count in zip(at[starts].tolist(), at[ends].tolist(), held, strict=True))


def _run(first: int, last: int, count: int | None = None) -> str:
    if first == last:
        return str(first)
    return f"{first}-{last}" + (f"/{count}" if count is not None and count <= last - first else "")
