"""What is simpler on each axis of an op, read from its SPEC: the passes of a shrinking search, and the steps from its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from kvcheck.agent import specs
from kvcheck.agent.axes import Axis
from kvcheck.flow import shrink_requests as requests
from kvcheck.search.shrink import Point, Shrinker

PREFERRED = {"values": ("exact_int", "gaussian"), "poison": ("zero",), "kv_dtype": ("e4m3fn",)}
"""Simplest choices first, where they are not the SPEC's first."""

NOT_A_SIZE = ("divisor",)
"""Integers of which less is not simpler: the default is."""

SIZES = ("block_size", "page_size")
"""Endings of the names of axes that are lowered together as well: one must divide another."""

MOST_ITEMS = 1 << 16
"""Longest list of positions that is taken apart."""

FEWER_KEYS, FEWER_PAGES = "nonzero_keys", "distinct_pages"

Pass = Callable[[Shrinker], None]


def passes(op: str) -> list[Pass]:
    """The passes over the axes of an op, what costs most first: requests and lengths, other sizes, choices."""
    known = specs.axes(op)
    lengths = [axis for axis in known.values() if axis.type == "lengths"]
    apart = (*NOT_A_SIZE, *(("batch", "next_n") if lengths else ()))
    sizes = [axis for axis in known.values() if axis.type == "int" and axis.name not in apart]
    others = [axis for axis in known.values() if axis.type in ("choice", "number", "bool") or axis.name in NOT_A_SIZE]
    found: list[Pass] = []
    for axis in lengths:
        found.append(lambda search, axis=axis: requests.fewer(search, axis))
        found.append(lambda search, axis=axis: requests.shorter(search, axis, boundaries(op, search.best, axis.name)))
    if lengths and "next_n" in known:
        found.append(lambda search: requests.fewer_tokens(search, lengths[0]))
    found += [lambda search, axis=axis: _lower(search, axis, boundaries(op, search.best, axis.name)) for axis in sizes]
    found += [lambda search, axis=axis: _choose(search, axis) for axis in others]
    found.append(_lower_sizes)
    found.append(_forget_variables)
    return found


def data_passes(op: str) -> list[Pass]:
    """The passes over the data of a case: pages that are distinct, keys that are not zero."""
    known = specs.axes(op)
    found: list[Pass] = []
    if FEWER_PAGES in known:
        found.append(lambda search: _fewer(search, FEWER_PAGES, pages(search.best)))
    if FEWER_KEYS in known:
        found.append(lambda search: _fewer(search, FEWER_KEYS, tokens(search.best)))
    return found


def simplest(axis: Axis, value: Any) -> list[Any]:
    """The values of an axis that has no order, simplest first, as far as the one it has."""
    if axis.type == "choice":
        first = [name for name in PREFERRED.get(axis.name, ()) if name in axis.choices]
        order: list[Any] = first + [name for name in axis.choices if name not in first and name != "auto"]
    elif axis.type == "bool":
        order = [axis.default, not axis.default]
    else:
        order = [None] if axis.optional else []
        order += [number for number in (axis.default, 1.0) if number is not None and specs.check_value(axis, number) is None]
    return order[: order.index(value)] if value in order else order


def boundaries(op: str, point: Point, name: str) -> list[int]:
    """Numbers of an axis that are worth a try: small ones, powers of two, and what the SPEC names, each with its neighbours."""
    named = specs.load("ops", op).data.get("boundaries", {}).get(name, [])
    marks = [point.get(mark) if isinstance(mark, str) else mark for mark in named] + [point.get("next_n", 1)]
    near = [mark + shift for mark in marks if isinstance(mark, int) for shift in (-1, 0, 1)]
    return [0, 1, 2, 3, 4, *(1 << power for power in range(3, 25)), *near]


def pages(point: Point) -> int:
    """Pages of the longest request."""
    size = point.get("block_size", point.get("page_size", 1))
    return -(-specs.longest(point["context_len"]) // size)


def tokens(point: Point) -> int:
    """Tokens of the longest request; of a call without requests, its tokens."""
    return specs.longest(point["context_len"]) if "context_len" in point else int(point["tokens"])


def steps(op: str, point: Point) -> Iterator[Point]:
    """Points that are one step away on one axis, in either direction."""
    known = specs.axes(op)
    for axis in known.values():
        value = point.get(axis.name)
        if axis.type == "lengths":
            yield from requests.steps(point, axis)
        elif axis.type == "int" and isinstance(value, int) and not (axis.name == "batch" and "context_len" in known):
            size = axis.multiple_of or 1
            near = {value - size, value + size, value * 2, 1 << max(value - 1, 1).bit_length() >> 1}
            yield from ({**point, axis.name: number} for number in sorted(near) if number != value)
            yield from ({**point, axis.name: None},) if axis.optional else ()
        elif axis.type == "choice":
            yield from ({**point, axis.name: name} for name in axis.choices if name not in (value, "auto"))
        elif axis.type == "bool":
            yield {**point, axis.name: not value}
        elif axis.type == "number":
            yield from ({**point, axis.name: number} for number in simplest(axis, value) if number != value)
    for name in known.unlisted:
        kept = point.get(name)
        if kept is not None:
            yield {key: value for key, value in point.items() if key != name}
            yield from ({**point, name: [other for other in kept if other != item]} for item in kept[:16])


def distance(op: str, point: Point, other: Point) -> float | None:
    """How far two points are apart: between 0 and 1 on one axis; None where they differ on more, or not at all.

    Requests and their lengths, and query tokens and lengths a token, count as one axis. A variable of the environment is none: a case
    without it is run in whatever environment there is.
    """
    axes, known = differing(point, other), specs.axes(op)
    if not axes or (len(axes) > 1 and not set(axes) <= {"batch", "next_n", "context_len"}) or {"batch", "next_n"} <= set(axes):
        return None
    if any(name.startswith("env.") for name in axes):
        return None
    if ("context_len" in axes or "batch" in axes) and "context_len" in point:
        return requests.distance(point, other)
    name = axes[0]
    a, b = point.get(name), other.get(name)
    if known[name].type == "positions":
        return 1.0 if a is None or b is None else len(set(a) ^ set(b)) / max(len(a), len(b))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and not isinstance(a, bool):
        return abs(a - b) / max(abs(a), abs(b), 1e-9)
    return 1.0


def differing(point: Point, other: Point) -> list[str]:
    """Axes on which two points differ, in the order of the first."""
    return [name for name in {**point, **other} if point.get(name) != other.get(name)]


def _lower(search: Shrinker, axis: Axis, likely: list[int]) -> None:
    value = search.best.get(axis.name)
    if value is None or (axis.optional and search.consider({**search.best, axis.name: None})):
        return
    step = axis.multiple_of or 1
    likely = [number * step for number in likely if number < 8] + likely
    search.integer(lambda n: {**search.best, axis.name: n}, value, int(axis.min or 0), step, likely)


def _choose(search: Shrinker, axis: Axis) -> None:
    value = search.best.get(axis.name)
    if axis.name in search.best:
        search.first([{**search.best, axis.name: simpler} for simpler in simplest(axis, value) if simpler != value])


def _lower_sizes(search: Shrinker) -> None:
    """Sizes of which one divides another: all of them by one factor, then one as large as another."""
    sizes = {name: value for name, value in search.best.items() if name.endswith(SIZES) and isinstance(value, int)}
    if len(sizes) < 2:
        return
    common = math.gcd(*sizes.values())
    factors = [factor for factor in range(common, 1, -1) if common % factor == 0]
    search.first([{**search.best, **{name: value // factor for name, value in sizes.items()}} for factor in factors])
    for name in sizes:
        for other in sizes:
            if search.best[other] < search.best[name]:
                search.consider({**search.best, name: search.best[other]})
    together = {value for name, value in search.best.items() if name in sizes}
    search.first([{**search.best, **dict.fromkeys(sizes, value)} for value in sorted(together)[:-1]])


def _forget_variables(search: Shrinker) -> None:
    for name in [name for name in search.best if name.startswith("env.")]:
        search.consider({key: value for key, value in search.best.items() if key != name})


def _fewer(search: Shrinker, name: str, count: int) -> None:
    """Fewer of some positions; without the axis, all of them are there."""
    items = search.best.get(name)
    items = list(range(count)) if items is None else [item for item in items if item < count]
    if not items or (len(items) > MOST_ITEMS and not search.consider({**search.best, name: []})):
        return
    search.subset(lambda kept: {**search.best, name: kept}, items)
