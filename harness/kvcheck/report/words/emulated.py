"""What a report says of an emulated device: that it is none, what is modelled, and what its sanitizer saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from kvcheck.report.words.clean import line
from kvcheck.report.words.numbers import listed, number, some

Quote = Callable[[str], str]


def notice(run: dict[str, Any], quote: Quote = line) -> str | None:
    """The sentence that every report of an emulated run has; None for other devices."""
    device = (run.get("environment") or {}).get("device") or {}
    if device.get("type") != "emulated":
        return None
    text = f"{quote(line(device.get('name'), 40))}: {line(device.get('notice'), 300)}; {line(device.get('modelled'), 200)}."
    looked = device.get("sanitizer")
    if looked is not None:
        text += f" The sanitizer looked for {', '.join(line(kind, 40) for kind in looked) or 'nothing'}."
    return text


def beside(run: dict[str, Any], quote: Quote = line) -> str | None:
    """Clamped accesses: what the card would answer with zeros and dropped stores, whatever the verdict."""
    seen: Counter[str] = Counter()
    cases = 0
    for row in run["cases"]:
        clamped = [found for found in row.get("findings") or () if found.get("kind") == "clamped_access"]
        cases += bool(clamped)
        seen.update({f"{line(row.get('provider'), 60)} {line(found.get('source'), 120)}" for found in clamped})
    if not seen:
        return None
    places = listed([f"{quote(place)} ({some(count, 'case')})" for place, count in seen.most_common(4)])
    more = f", and {some(len(seen) - 4, 'other place')}" if len(seen) > 4 else ""
    return (
        f"Buffer accesses outside their buffer, which the card clamps (loads give 0, stores are dropped), in {some(cases, 'case')}: "
        f"{places}{more}."
    )


def is_sanitizer(where: dict[str, Any] | None) -> bool:
    """Whether a `first_bad` is a finding of the sanitizer."""
    return bool(where) and "kind" in where and "source" in where


def place(where: dict[str, Any]) -> str:
    """Where a finding of the sanitizer is: tensor and byte, source line."""
    tensor = (
        f"{line(where.get('tensor'), 60)} byte {number(where.get('offset'))} of {number(where.get('size'))}, "
        if where.get("tensor")
        else ""
    )
    return line(f"{tensor}{where.get('source')}", 160)


def evidence(where: dict[str, Any]) -> str:
    """The instruction of a finding, and how often it went wrong."""
    count = f", {number(where['count'])} lanes over the launch" if where.get("count") else ""
    workgroup = where.get("workgroup")
    group = f", first in workgroup {number(workgroup)}" if isinstance(workgroup, int) and workgroup >= 0 else ""
    return line(f"at {where.get('instruction')} (line {number(where.get('line'))} of the assembly){group}{count}", 400)
