"""What is simpler in a batch: fewer requests, shorter ones, fewer query tokens; batch, next_n and lengths go together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvcheck.agent.axes import Axis
from kvcheck.search.shrink import Point, Shrinker

MOST_REQUESTS = 256
"""Longest batch that is written out as a list."""


def entries(point: Point, axis: str = "context_len") -> list[Any]:
    """The length of every request, or its lengths a query token."""
    value = point[axis]
    return list(value) if isinstance(value, list) else [value] * point.get("batch", 1)


def with_entries(point: Point, lengths: list[Any], axis: str = "context_len") -> Point:
    """The point with other requests; lengths that are all the same are one number."""
    same = all(length == lengths[0] for length in lengths) and isinstance(lengths[0], int)
    return {**point, "batch": len(lengths), axis: lengths[0] if same else lengths}


def fewer(search: Shrinker, axis: Axis) -> None:
    """One request alone, the shortest first; else as few as can be."""
    name, count = axis.name, search.best["batch"]
    if not isinstance(search.best[name], list):
        search.integer(lambda n: {**search.best, "batch": n}, count, 1, 1, [2, 3, 4, 8, 16, 32, 64, 128, 256])
        return
    lengths = entries(search.best, name)
    alone = [length for i, length in enumerate(lengths) if length not in lengths[:i]]
    if count > 1 and search.first([with_entries(search.best, [length], name) for length in sorted(alone, key=_size)]):
        return
    if count > 1:
        search.subset(lambda kept: with_entries(search.best, kept, name), lengths, least=1)


def shorter(search: Shrinker, axis: Axis, likely: list[int]) -> None:
    """Shorter requests: one length for all, all of them cut to a number, then each by itself."""
    name, low = axis.name, int(axis.min or 0)
    if not isinstance(search.best[name], list):
        search.integer(lambda n: {**search.best, name: n}, search.best[name], low, 1, likely)
        return
    lengths = entries(search.best, name)
    if isinstance(lengths[0], list) and search.consider(with_entries(search.best, [max(length) for length in lengths], name)):
        lengths = entries(search.best, name)
    longest = max(map(_size, lengths))
    search.integer(lambda n: with_entries(search.best, [_cut(length, n) for length in lengths], name), longest, low, 1, likely)
    for place in range(len(entries(search.best, name))):
        lengths = entries(search.best, name)
        if isinstance(lengths[place], list):
            for token, length in enumerate(lengths[place]):
                search.integer(lambda n, p=place, t=token: _replaced_token(search.best, p, t, n, name), length, low, 1, likely)
        else:
            search.integer(lambda n, p=place: _replaced(search.best, p, n, name), lengths[place], low, 1, likely)


def fewer_tokens(search: Shrinker, axis: Axis) -> None:
    """Fewer query tokens a request; lengths a token lose their last ones."""

    def with_tokens(count: int) -> Point:
        lengths = search.best[axis.name]
        cut = [length[:count] if isinstance(length, list) else length for length in lengths] if isinstance(lengths, list) else lengths
        return {**search.best, "next_n": count, axis.name: cut}

    if search.best["next_n"] > 1:
        search.integer(with_tokens, search.best["next_n"], 1, 1, [2, 3, 4])


def steps(point: Point, axis: Axis) -> Iterator[Point]:
    """A request more or less, a token more or less in one or in all of them."""
    name, low = axis.name, int(axis.min or 0)
    lengths = entries(point, name)
    if len(lengths) > MOST_REQUESTS:
        yield {**point, "batch": point["batch"] - 1}
        return
    for shift in (-1, 1):
        if not isinstance(point[name], list) and point[name] + shift >= low:
            yield {**point, name: point[name] + shift}
    for place, length in enumerate(lengths):
        if len(lengths) > 1:
            yield with_entries(point, lengths[:place] + lengths[place + 1 :], name)
        for shift in (-1, 1):
            if isinstance(length, int) and length + shift >= low and len(lengths) > 1:
                yield _replaced(point, place, length + shift, name)
    yield with_entries(point, [*lengths, lengths[-1]], name)
    if isinstance(lengths[0], list):
        yield with_entries(point, [max(length) for length in lengths], name)


def distance(point: Point, other: Point, axis: str = "context_len") -> float:
    """How far two batches are apart, between 0 and 1: the share of tokens that came or went, at least that of requests."""
    ours, theirs = entries(point, axis), entries(other, axis)
    if len(ours) != len(theirs):
        return abs(len(ours) - len(theirs)) / max(len(ours), len(theirs))
    flat, there = ([number for length in side for number in (length if isinstance(length, list) else [length])] for side in (ours, theirs))
    if len(flat) != len(there):
        return 1.0
    return sum(abs(a - b) for a, b in zip(flat, there, strict=True)) / max(sum(flat), sum(there), 1)


def _size(length: Any) -> int:
    return max(length) if isinstance(length, list) else length


def _cut(length: Any, most: int) -> Any:
    return [min(number, most) for number in length] if isinstance(length, list) else min(length, most)


def _replaced(point: Point, place: int, length: Any, name: str) -> Point:
    lengths = entries(point, name)
    return with_entries(point, [*lengths[:place], length, *lengths[place + 1 :]], name)


def _replaced_token(point: Point, place: int, token: int, number: int, name: str) -> Point:
    length = entries(point, name)[place]
    return _replaced(point, place, [*length[:token], number, *length[token + 1 :]], name)
