"""Whether flips repeat: a period is guessed from where they are, and named only if points not judged before agree."""

from __future__ import annotations

import math

from kvcheck.search.brackets import Evaluations, Flip

PROBES = 3
"""Predicted flips that are judged before a period is named."""


def guess(flips: list[Flip], boundaries: list[int]) -> int | None:
    """A distance at which the flips may repeat.

    It is the greatest common divisor of the distances between flips of the same direction. Two flips of opposite direction
    enclose an island: if that holds a boundary, the boundary may be the period.
    """
    distance = 0
    for direction in ("pass_to_fail", "fail_to_pass"):
        at = [flip.last_pass for flip in flips if flip.direction == direction]
        distance = math.gcd(distance, *(b - a for a, b in zip(at, at[1:], strict=False)))
    if distance or len(flips) != 2:
        return distance if distance > 1 else None
    first, last = max(flips[0].last_pass, flips[0].first_fail), min(flips[1].last_pass, flips[1].first_fail)
    inside = [boundary for boundary in boundaries if first <= boundary <= last and last - first + 1 < boundary]
    return inside[0] if inside else None


def confirm(seen: Evaluations, flips: list[Flip], period: int) -> int | None:
    """Judges whether the flips repeat at smaller steps, then a few flips that the period predicts.

    Args:
        seen: what was judged; grows by the points that are needed.
        flips: closed flips, ascending.
        period: the guess, a multiple of what may be the true period.

    Returns:
        period: the smallest that holds, or None when a predicted flip is not there or none was left to judge.
    """
    anchor = flips[0]
    period = _smallest(seen, anchor, period)
    if not consistent(seen, flips, period):
        return None
    shifts = _unseen_shifts(seen, flips, anchor, period)
    if not shifts:
        same = [flip for flip in flips if flip.direction == anchor.direction]
        return period if len(same) > 2 else None
    seen.judge(point for shift in shifts for point in (anchor.last_pass + shift, anchor.first_fail + shift))
    answers = [_flips_there(seen, anchor, shift) for shift in shifts]
    return period if True in answers and False not in answers else None


def consistent(seen: Evaluations, flips: list[Flip], period: int) -> bool:
    """Whether no two known points between the first and the last flip contradict the period."""
    ends = [point for flip in flips for point in (flip.last_pass, flip.first_fail)]
    verdict_of: dict[int, str] = {}
    points = [point for point in seen.known() if min(ends) <= point <= max(ends)]
    return all(verdict_of.setdefault(point % period, seen.verdicts[point]) == seen.verdicts[point] for point in points)


def _smallest(seen: Evaluations, anchor: Flip, period: int) -> int:
    """Divides the period by its prime factors as long as the first flip is also found at the shorter step."""
    for prime in _prime_factors(period):
        step = period // prime
        if step == 1:
            continue
        seen.judge([anchor.last_pass + step])
        if seen.verdicts.get(anchor.last_pass + step) == "pass":
            seen.judge([anchor.first_fail + step])
        if _flips_there(seen, anchor, step):
            period = step
    return period


def _prime_factors(number: int) -> list[int]:
    """Prime factors, ascending, each as often as it divides."""
    found, factor = [], 2
    while factor * factor <= number:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return [*found, number] if number > 1 else found


def _unseen_shifts(seen: Evaluations, flips: list[Flip], anchor: Flip, period: int) -> list[int]:
    """Multiples of the period that take the first flip to points of which one was not judged, spread over the flips' range."""
    low, high = min(anchor.last_pass, anchor.first_fail), max(anchor.last_pass, anchor.first_fail)
    last = max(flips[-1].last_pass, flips[-1].first_fail)
    inside = _unseen(seen, anchor, range(period, last - high + 1, period))
    if not inside:
        inside = _unseen(seen, anchor, range(period, seen.high - high + 1, period))
    if not inside:
        inside = _unseen(seen, anchor, range(-period, seen.low - low - 1, -period))
    count = min(PROBES, len(inside))
    return [inside[(2 * index + 1) * len(inside) // (2 * count)] for index in range(count)]


def _unseen(seen: Evaluations, anchor: Flip, shifts: range) -> list[int]:
    return [shift for shift in shifts if anchor.last_pass + shift not in seen.verdicts or anchor.first_fail + shift not in seen.verdicts]


def _flips_there(seen: Evaluations, anchor: Flip, shift: int) -> bool | None:
    """Whether the flip is found again at a shift; None when a verdict is missing."""
    passing, failing = seen.verdicts.get(anchor.last_pass + shift), seen.verdicts.get(anchor.first_fail + shift)
    if passing == "fail" or failing == "pass":
        return False
    return True if (passing, failing) == ("pass", "fail") else None
