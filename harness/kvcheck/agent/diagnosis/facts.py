"""What is known of wrong elements where no fault explains them: rows, positions, tiles, splits, heads."""

from __future__ import annotations

from typing import Any

import torch

TILES = (16, 64, 128, 256)
SPLITS = range(2, 17)
SHOWN = 6
CHANCE = 0.02
"""Part of a wrong region that may be right by chance: logits near 0 are what a wrong kernel often leaves."""


def known(wrong: Any, inside: Any, axes: tuple[str, ...], lengths: Any = None, block_size: int | None = None) -> list[str]:
    """Sentences about the wrong elements of one output.

    Args:
        wrong: bool, any shape. What differs from the honest kernel's.
        inside: bool of that shape. Promised elements.
        axes: a name an axis.
        lengths: [rows] int64. Promised positions of each row, where the output is rows of positions.
        block_size: tokens a page, where positions are those of a paged cache.
    """
    bad = wrong & inside
    count, total = int(bad.sum()), int(inside.sum())
    texts = [f"{count} of {total} promised elements are wrong"] if count else []
    past = int((wrong & ~inside).sum())
    if past:
        where = _place(wrong & ~inside, axes)
        texts.append(f"{past} element{'' if past == 1 else 's'} past what is promised hold a value, first at {where}")
    for axis, name in enumerate(axes):
        if (lengths is not None and axis == 1) or not count:
            continue
        picked, of = _along(bad, axis), _along(inside, axis)
        if int(picked.sum()) < int(of.sum()) or axis == 0:
            texts.append(f"wrong {name}s: {_numbers(picked.nonzero().flatten().tolist())} of {int(of.sum())}")
    if lengths is not None and count:
        texts += _positions(bad, inside, lengths, block_size)
    return texts


def _positions(bad: Any, inside: Any, lengths: Any, block_size: int | None) -> list[str]:
    """How wrong positions lie to pages, tiles and splits, in the rows that have any."""
    rows = bad.any(1)
    bad, inside, lengths = bad[rows], inside[rows], lengths[rows]
    position = torch.arange(bad.shape[1])
    at = bad.any(0).nonzero().flatten()
    texts = [f"positions {int(at[0])} to {int(at[-1])}"]
    sizes = sorted({size for size in (block_size, *TILES) if size and size > 1})
    page = {block_size: "page"}
    every = _but_for(bad, inside)
    if every is not None:
        return [*texts, f"every position of those rows{every}"]
    for size in sizes:
        found = _classes(bad, inside, position % size)
        if found and int(lengths.max()) > size:
            texts.append(f"wrong only where position mod {size} ({page.get(size, 'tile')}) is {found}")
            break
    for size in reversed(sizes):
        found = _classes(bad, inside, position // size)
        if found:
            texts.append(f"whole {page.get(size, 'tile')}s of {size}: {found}")
            break
    first = torch.where(bad, position, bad.shape[1]).amin(1)
    tail = _but_for(bad, inside & (position >= first[:, None]))
    if tail is not None:
        texts.append(f"to the end of each row, from position {_numbers(sorted(set(first.tolist())))}{tail}")
    return [*texts, *_split(bad, position, lengths)]


def _split(bad: Any, position: Any, lengths: Any) -> list[str]:
    """Whether the wrong positions are one of n equal parts of every row."""
    for n in SPLITS:
        part = -(-lengths // n)
        number = position // part.clamp(min=1)[:, None]
        inside = position < lengths[:, None]
        hit = number[bad].unique()
        if len(hit) == 1 and (left := _but_for(bad, inside & (number == hit))) is not None:
            return [f"part {int(hit) + 1} of {n} of each row (split){left}"]
    return []


def _classes(bad: Any, inside: Any, classes: Any) -> str | None:
    """The classes of positions that are wrong, where each is wrong as a whole or not at all; None otherwise, or where all are."""
    count = int(classes.max()) + 1
    hits, of = (torch.zeros(count, dtype=torch.long).index_add_(0, classes, mask.sum(0)) for mask in (bad, inside))
    if not bool(((hits == 0) & (of > 0)).any()):
        return None
    left = _but_for(bad, inside & (hits > 0)[classes])
    return None if left is None else _numbers((hits > 0).nonzero().flatten().tolist()) + left


def _but_for(bad: Any, region: Any) -> str | None:
    """Whether the wrong elements are those of a region: a few of them may be right by chance, and are told; None where they are not."""
    left = int((region & ~bad).sum())
    if bool((bad & ~region).any()) or left > CHANCE * int(region.sum()):
        return None
    return f" (but for {left})" if left else ""


def _along(mask: Any, axis: int) -> Any:
    return mask.movedim(axis, 0).reshape(mask.shape[axis], -1).any(1)


def _place(mask: Any, axes: tuple[str, ...]) -> str:
    index = mask.nonzero()[0].tolist()
    return ", ".join(f"{name} {at}" for name, at in zip(axes, index, strict=True))


def _numbers(values: list[int]) -> str:
    """`0 to 3, 7`; past six runs the rest is counted."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    texts = [str(low) if low == high else f"{low}{' to ' if high > low + 1 else ', '}{high}" for low, high in runs[:SHOWN]]
    left = sum(high - low + 1 for low, high in runs[SHOWN:])
    return ", ".join(texts) + (f" and {left} more" if left else "")
