"""Which faults may be behind a wrong output: those that know the op, with the values that the data suggest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvcheck.agent import specs

BASE = "torch_eager"
RANKS = {None: 0, "int": 1, "range": 2}
"""How much of a fault is chosen by the data."""


def names(op: str, data: dict[str, Any]) -> Iterator[str]:
    """Faults as `--provider` takes them behind `fault:`: those that show everywhere before those that a relation alone is sure to see,
    without values before those that owe one to the data, then by name.

    Args:
        op: the op.
        data: `lengths`: tokens of each request; `wrong`: whether any row of it is wrong; `topk`: k, or None.
    """
    known = [specs.load("faults", name).data for name in specs.names("faults")]
    known = [each for each in known if op in each["ops"] and each["base"] == BASE]
    for each in sorted(known, key=lambda each: ("relation" in each, RANKS[each["value"]], each["name"])):
        if each["value"] is None:
            yield each["name"]
        for value in _values(each, data) if each["value"] else ():
            yield f"{each['name']}={value}"


def sentence(name: str) -> str:
    """What a fault says of itself, with its value in it.

    Args:
        name: one fault, or several joined by `+`.
    """
    return "; and ".join(_sentence(part) for part in name.split("+"))


def _sentence(name: str) -> str:
    fault, equals, value = name.partition("=")
    text = str(specs.load("faults", fault).data["sentence"])
    return f"{text} ({value})" if equals else text


def _values(fault: dict[str, Any], data: dict[str, Any]) -> list[str]:
    suggested = fault.get("candidates")
    if isinstance(suggested, list):
        return [str(value) for value in suggested]
    if suggested != "lengths":
        return []
    wrong = [length for length, bad in zip(data["lengths"], data["wrong"], strict=True) if length and bad]
    right = [length for length, bad in zip(data["lengths"], data["wrong"], strict=True) if length and not bad]
    if not wrong:
        return []
    low, high = min(wrong), max(wrong)
    if fault["value"] == "range":
        return [] if any(low <= length <= high for length in right) else [f"{low}-{high}"]
    if any(length > low for length in right):
        return []
    most = max(right, default=0)
    k = data.get("topk")
    return [str(k if k and most <= k < low else most if right else low - 1)]
