"""A threshold in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.report.words.clean import line
from kvcheck.report.words.numbers import count, listed, some

Quote = Callable[[str], str]


def threshold_sentence(threshold: dict[str, Any], quote: Quote = line) -> str:
    """One sentence on where a provider's verdict flips, and how closely was looked.

    Args:
        threshold: an entry of run.json's `thresholds`; `range`, `counts`, `unknown`, `incomplete` and `bound` are used where there.
        quote: how names are written; a code span in Markdown.
    """
    at = ", ".join(f"{axis}={value}" for axis, value in (threshold.get("at") or {}).items())
    who = quote(str(threshold.get("provider"))) + (f" at {quote(at)}" if at else "")
    looked = some(threshold["evaluations"], "evaluation")
    if threshold.get("widest_gap"):
        looked += f", widest unexamined stretch {count(threshold['widest_gap'])}"
    notes = []
    if threshold.get("trivial_below"):
        alone = "the other checks" if threshold.get("bound") is False else "the logits' bound"
        notes.append(f"up to {threshold['trivial_below']} top-k could not have failed, and {alone} decided alone")
    if threshold.get("unknown"):
        notes.append(f"{some(len(threshold['unknown']), 'point')} had no verdict")
    if threshold.get("incomplete"):
        notes.append(f"not complete: {quote(threshold['incomplete'])}")
    return f"{who}: {_flips(threshold)} ({looked})" + "".join(f"; {note}" for note in notes) + "."


def _flips(threshold: dict[str, Any]) -> str:
    flips, axis = threshold["flips"], line(threshold["axis"], 40)
    if not flips:
        return _no_flip(threshold, axis)
    if threshold.get("period"):
        return f"{some(len(flips), 'flip')} met, repeating every {threshold['period']}: {_periodic(threshold, axis)}"
    if len(flips) == 1:
        return _one(flips[0], axis)
    return f"{some(len(flips), 'flip')} along {axis}: {_islands(flips)}"


def _no_flip(threshold: dict[str, Any], axis: str) -> str:
    low_high = threshold.get("range")
    text = f"no flip in {axis} {low_high[0]}..{low_high[1]}" if low_high else f"no flip along {axis}"
    counts = threshold.get("counts")
    if not counts:
        return text
    if not counts.get("pass") and not counts.get("fail"):
        return f"{text}, because no point had a verdict"
    return f"{text}, every judged point {'fails' if counts.get('fail') else 'passes'}"


def _one(flip: dict[str, Any], axis: str) -> str:
    passing, failing = flip["last_pass"], flip["first_fail"]
    between = f" ({some(flip['gap'], 'point')} between without a verdict)" if flip.get("gap") else ""
    if flip["direction"] == "pass_to_fail":
        return f"passes up to {axis} {passing}, fails from {failing}{between}"
    return f"fails up to {axis} {failing}, passes from {passing}{between}"


def _islands(flips: list[dict[str, Any]]) -> str:
    """Stretches between flips that fail, as far as points were judged."""
    stretches = []
    start = None if flips[0]["direction"] == "pass_to_fail" else ""
    for flip in flips:
        if flip["direction"] == "pass_to_fail":
            start = str(flip["first_fail"])
        elif start:
            stretches.append(start if start == str(flip["first_fail"]) else f"{start}..{flip['first_fail']}")
            start = None
        else:
            stretches.append(f"up to {flip['first_fail']}")
            start = None
    if start:
        stretches.append(f"from {start}")
    return f"fails in {listed(stretches)}" if stretches[0][0].isdigit() else f"fails {listed(stretches)}"


def _periodic(threshold: dict[str, Any], axis: str) -> str:
    """Which residues pass or fail; what precedes the repeating part is said first."""
    period, flips = threshold["period"], threshold["flips"]
    for start in range(min(3, len(flips) - 1)):
        rest = flips[start:]
        first = {flip["last_pass"] % period for flip in rest if flip["direction"] == "fail_to_pass"}
        last = {flip["last_pass"] % period for flip in rest if flip["direction"] == "pass_to_fail"}
        if len(first) == len(last) == 1:
            return _lead(threshold, start, *first, *last) + _residues(axis, period, *first, *last)
    return f"the verdict repeats from {axis} {min(flips[0]['last_pass'], flips[0]['first_fail'])} on"


def _lead(threshold: dict[str, Any], start: int, first: int, last: int) -> str:
    """What holds before the repeating part, unless that is no longer than one repeat."""
    period, flips = threshold["period"], threshold["flips"]
    if start > 1:
        return f"flips at {listed([str(max(flip['last_pass'], flip['first_fail'])) for flip in flips[:start]])}, beyond that "
    flip, low, passing_run = flips[0], (threshold.get("range") or [1])[0], (last - first) % period + 1
    if flip["direction"] == "pass_to_fail":
        length, run, text = flip["last_pass"] - low + 1, passing_run, f"passes up to {flip['last_pass']}"
    else:
        length, run, text = flip["first_fail"] - low + 1, period - passing_run, f"fails up to {flip['first_fail']}"
    return f"{text}, beyond that " if start or length > run else ""


def _residues(axis: str, period: int, first: int, last: int) -> str:
    """`passes only at multiples of 64`, or the residues that pass."""
    if first == last:
        return f"passes only {_at(axis, period, first)}"
    if (last + 1) % period == (first - 1) % period:
        return f"fails only {_at(axis, period, (last + 1) % period)}"
    return f"passes only where {axis} mod {period} is {first}..{last}"


def _at(axis: str, period: int, residue: int) -> str:
    return f"where {axis} mod {period} is {residue}" if residue else f"at multiples of {period}"
