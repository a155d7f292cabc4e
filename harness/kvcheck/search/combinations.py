"""Which points of the other axes a threshold is searched at."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

LIMIT = 4
"""Combinations that are searched without being asked for."""


class TooManyCombinations(ValueError):
    """Every combination of the other axes would be searched, and nobody asked for that many."""


def combinations(axes: Mapping[str, Sequence[Any]], at: Mapping[str, Any] | None = None, *, every: bool = False) -> list[dict[str, Any]]:
    """The points of the other axes, one search each.

    Args:
        axes: values by axis, without the axis that is searched along.
        at: values of axes that are settled; they need not be among the file's values. Axes it leaves out are combined.
        every: search past `LIMIT` combinations (`--all`).

    Returns:
        points: one dict a search: the axes in the order of `axes`, then what only `at` names.

    Raises:
        TooManyCombinations: more than `LIMIT` without `every`; the message says how to choose.
    """
    at = dict(at or {})
    free = {axis: list(values) for axis, values in axes.items() if axis not in at}
    count = math.prod(len(values) for values in free.values())
    if count > LIMIT and not every:
        sizes = " x ".join(f"{axis} {len(values)}" for axis, values in free.items())
        first = ", ".join(f"{axis}: {values[0]}" for axis, values in free.items())
        raise TooManyCombinations(
            f"{count} combinations of the other axes ({sizes}), at most {LIMIT} are searched unasked; "
            f"settle them with `threshold: {{at: {{{first}}}}}` in the case file or with --set, or search all with --all"
        )
    points = []
    for values in itertools.product(*free.values()):
        chosen = dict(zip(free, values, strict=True))
        points.append({**{axis: chosen.get(axis, at.get(axis)) for axis in axes}, **at})
    return points
