"""What a comparison of two runs found, in words and as rows of a table; shared by its formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvcheck.report.words import rows
from kvcheck.report.words.clean import line
from kvcheck.report.words.numbers import count, listed, number, some
from kvcheck.report.words.thresholds import threshold_sentence

Quote = Callable[[str], str]
Entry = dict[str, Any]

KINDS = (
    ("newly_failing", "newly failing", "Newly failing"),
    ("changed", "failing in another way", "Verdict changed"),
    ("not_judged_any_more", "not judged any more", "Not judged any more"),
    ("known_passes", "known failures that pass now", "Known failures that pass now: remove them from the list"),
    ("newly_passing", "newly passing", "Newly passing"),
    ("judged_now", "judged now", "Judged now, and passing"),
    ("drift", "passing with another ratio to the bound", "Drift of max_bound_ratio, both sides inside the bound"),
)
"""Changes of a case in the order of their weight: key, in a sentence, as a heading."""

HEAD = ("case", "provider", "before", "after")


def headline(result: dict[str, Any]) -> str:
    """The outcome in one line without foreign text."""
    worse = sum(entry["worse"] for entry in [*result["entries"], *result["thresholds"]])
    if worse:
        return f"{some(worse, 'thing')} got worse"
    if result["exit_code"] == 3:
        return "nothing can be compared: no case was judged on both sides"
    better = sum(entry["change"] in ("newly_passing", "judged_now") for entry in result["entries"])
    return "nothing got worse" + (f", {some(better, 'case is better', 'cases are better')}" if better else "")


def summary(result: dict[str, Any], quote: Quote = line) -> list[str]:
    """Paragraphs that say what was compared and found.

    Args:
        result: kvcheck.compare/1.
        quote: how foreign text is written.
    """
    counts = result["counts"]
    found = [f"{count(counts[key])} {said}" for key, said, _ in KINDS if counts.get(key)]
    found.append(f"{count(counts.get('same', 0))} the same")
    sides = [f"{name}: {_side(result[key], quote)}" for name, key in (("Before", "a"), ("after", "b"))]
    texts = ["; ".join(sides) + ".", f"Of {some(_paired(result), 'case')} in both: {listed(found, 12)}."]
    known = [entry for entry in result["entries"] if (entry.get("known") or {}).get("state") == "known"]
    if known:
        texts.append(f"{some(len(known), 'of these failures is', 'of these failures are')} known and not counted as worse.")
    if result["across"]:
        texts.append("Cases are paired by their id alone: the two sides are different providers.")
    for key, name in (("only_before", "before"), ("only_after", "after")):
        if counts.get(key):
            mine = [entry for entry in result["entries"] if entry["change"] == key]
            failing = sum(rows.is_failure(entry.get("before") or entry.get("after") or {}) for entry in mine)
            texts.append(f"{some(counts[key], 'case')} only {name}" + (f", {count(failing)} of them failing." if failing else "."))
    other = sum(bool(entry.get("other_inputs")) for entry in result["entries"])
    if other:
        texts.append(
            f"{some(other, 'changed case')} had other inputs on the two sides (another seed or generator): no evidence of a change."
        )
    return texts


def flips(result: dict[str, Any], quote: Quote = line) -> list[str]:
    """A sentence for each threshold that moved."""
    return [
        f"{'Worse' if entry['worse'] else 'Moved'}: before {threshold_sentence(entry['before'], quote).rstrip('.')}; "
        f"after {threshold_sentence(entry['after'], quote)}"
        for entry in result["thresholds"]
    ]


def groups(result: dict[str, Any]) -> list[tuple[str, list[Entry]]]:
    """Headings and entries of what changed, the gravest first; within a heading what got worse first."""
    found = []
    for key, _, heading in KINDS:
        mine = sorted((entry for entry in result["entries"] if entry["change"] == key), key=lambda entry: not entry["worse"])
        if mine:
            found.append((heading, mine))
    return found


def cells(entry: Entry) -> tuple[str, str, str, str]:
    """An entry under HEAD; foreign text, not quoted yet."""
    known = entry.get("known") or {}
    mark = " (known)" if known.get("state") == "known" else ""
    providers = " / ".join(map(str, entry["providers"])) if entry.get("providers") else str(entry.get("provider"))
    return str(entry.get("id")), providers, state(entry.get("before")), state(entry.get("after")) + mark


def state(side: Entry | None) -> str:
    """How a case ended: verdict, output, check, place or ratio."""
    if not side:
        return "-"
    verdict = rows.verdict(side)
    ratio = side.get("max_bound_ratio")
    if verdict == "pass":
        return "pass" if ratio is None else f"pass, ratio {number(ratio, 3)}"
    where = rows.place(side)
    parts = [side.get("output") or (side.get("first_bad") or {}).get("output"), side.get("check")]
    text = f"{verdict} {'/'.join(str(part) for part in parts if part)}".strip()
    return line(f"{text} {where}" if where else f"{text}: {line(side.get('message'), 120)}" if side.get("message") else text, 200)


def _paired(result: dict[str, Any]) -> int:
    return sum(number for key, number in result["counts"].items() if key not in ("only_before", "only_after"))


def _side(side: dict[str, Any], quote: Quote) -> str:
    names = listed([quote(line(name, 80)) for name in side["providers"]], 4) or "no provider"
    return f"{quote(line(side.get('id') or 'a run', 120))} ({names})"
