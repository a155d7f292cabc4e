"""What a bisect would do, before it does it."""

from __future__ import annotations

from typing import Any

from kvcheck.report.words.bisected import nouns, short
from kvcheck.report.words.clean import code
from kvcheck.report.words.numbers import some
from kvcheck.report.words.sections import table

SHOWN = 60
"""Rows of a table."""


def render(plan: dict[str, Any]) -> str:
    """What a bisect would do.

    Args:
        plan: kind, find, runs, cases, candidates, first, steps, notes, takes.
    """
    one, many = nouns(plan["kind"])
    candidates = plan["candidates"]
    body = [
        [
            str(i),
            code(c["label"], 80, table=True),
            code(short(c["key"]), 80, table=True),
            code(c["date"], 40, table=True) if c["date"] else "-",
            _asked_first(plan, i),
        ]
        for i, c in enumerate(candidates)
    ]
    runs = f", {plan['runs']} runs each" if plan["runs"] > 1 else ""
    size = f"{some(len(candidates), one, many)}, about {some(plan['steps'], 'step')}{runs}"
    lines = [
        f"{size}; each step runs {some(len(plan['cases']), 'case')}. Looks for {_aim(plan)}. Nothing was run.",
        table(("#", one, "key", "date", "asked"), body[:SHOWN]) + (f"\n\nand {len(body) - SHOWN} more" if len(body) > SHOWN else ""),
    ]
    takes = [f"- {code(name, 80)}: {_amount(name, value)}" for name, value in plan["takes"].items()]
    lines += ["\n".join(takes)] if takes else []
    lines += ["\n".join(f"- {code(note, 600)}" for note in plan["notes"])] if plan["notes"] else []
    return "\n\n".join(lines) + "\n"


def _aim(data: dict[str, Any]) -> str:
    return "the fix" if data["find"] == "fix" else "the first bad one"


def _asked_first(plan: dict[str, Any], index: int) -> str:
    bad, good = (0, len(plan["candidates"]) - 1) if plan["find"] == "fix" else (len(plan["candidates"]) - 1, 0)
    return {bad: "first, bad end", good: "second, good end"}.get(index, "third, middle" if index == plan["first"][-1] else "")


def _amount(name: str, value: Any) -> str:
    return f"{value / 2**30:.1f} GiB" if name.startswith("bytes") and isinstance(value, (int, float)) else code(value, 200)
