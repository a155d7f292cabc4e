"""What a script's own comparison is worth, from the values that it compared."""

from __future__ import annotations

from typing import Any

from kvcheck.report.words.numbers import listed, number, share, some

COMPARED = ("positional", "equal_lists", "overlap", "close", "difference", "left")
HIGH = 0.9
"""Chance level from which an overlap says nothing by itself."""


def metric(noticed: dict[str, list[int]], run: Any, calls: list[dict[str, Any]], *, stopped: bool) -> list[dict[str, Any]]:
    """Findings on the metric.

    Args:
        noticed: lines by kind.
        run: the honest run.
        calls: its calls, those of references left out.
        stopped: whether it did not come to its end: a comparison may have been to come.
    """
    sound = {event["call"] for event in run.of("close") if not (event["zeros"] or event["mirrored"] or event["both"])}
    return [
        *([] if stopped else _nothing(run, calls)),
        *_trivial(noticed, run, calls, sound),
        *_positional(noticed, run),
        *_filler(noticed, run),
        *_overlap(noticed, run, sound),
        *_tolerances(run),
    ]


def _finding(name: str, level: str, sentence: str, lines: list[int] | None = None) -> dict[str, Any]:
    return {"part": "metric", "id": name, "level": level, "sentence": sentence, "lines": lines or []}


def _nothing(run: Any, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if run.of(*COMPARED):
        return []
    return [_finding("nothing_compared", "void", f"nothing is compared with what {some(len(calls), 'call')} answered.")]


def _trivial(noticed: dict[str, list[int]], run: Any, calls: list[dict[str, Any]], sound: set[int]) -> list[dict[str, Any]]:
    chosen = [event for event in run.of("topk") if event["k"] >= event["longest"]]
    if not chosen:
        return []
    lengths = sorted({event["longest"] for event in chosen})
    lines = noticed.get("topk_of_min")
    k = f"k = min({max(event['k'] for event in run.of('topk'))}, length)" if lines else "k is no less than the row's length"
    level = "note" if {event["call"] for event in chosen} <= sound else "void"
    text = f"{k}: at {listed([str(length) for length in lengths])} every selection passes"
    below = ", those that rank below the filler excepted" if any(event["below"] for event in chosen) else ""
    text += ", and only the other comparison decides there." if level == "note" else f" whatever the kernel computes{below}."
    return [_finding("topk_of_min", level, text, lines)]


def _positional(noticed: dict[str, list[int]], run: Any) -> list[dict[str, Any]]:
    events = run.of("positional")
    if not events:
        return []
    lines = noticed.get("sorted_lists")
    if not all(event["sorted"] for event in events):
        text = "index lists are compared entry by entry in the order of top-k: equal or rounded values in another order count as wrong."
        return [_finding("positional", "void", text, lines)]
    k = max(event["k"] for event in events)
    early = min(10, k - 1)
    text = (
        f"positional comparison of sorted lists: with one differing member of {k} (position {early} left out, position {k} in) it reads "
        f"{share(early / k)}; the set overlap of the same two lists is {share((k - 1) / k)}."
    )
    low = [event for event in events if event["overlap"] - event["positional"] > 0.05]
    if low:
        worst = max(low, key=lambda event: event["overlap"] - event["positional"])
        text += f" Here, at {worst['longest']}, it read {share(worst['positional'])} where the overlap was {share(worst['overlap'])}."
    return [_finding("positional", "void", text, lines)]


def _filler(noticed: dict[str, list[int]], run: Any) -> list[dict[str, Any]]:
    events = [event for event in run.of("topk") if event["filler"] is not None]
    if not events:
        return []
    worst = max(events, key=lambda event: event["below"])
    lines = noticed.get("finite_filler")
    value = number(float(f"{worst['filler']:.6g}"))
    if not worst["below"]:
        text = f"the filler {value} is finite; it lies below every logit here, as only -inf always does."
        return [_finding("finite_filler", "note", text, lines)]
    outside = max((event["outside"] for event in run.of("positional")), default=0)
    past = f", and up to {outside} members of the lists lie past the row's end" if outside else ""
    text = f"the filler {value} lies inside the logits' range: up to {worst['below']} logits of a call lose to it{past}."
    return [_finding("finite_filler", "void", text, lines)]


def _overlap(noticed: dict[str, list[int]], run: Any, sound: set[int]) -> list[dict[str, Any]]:
    if not noticed.get("overlap") and not run.of("overlap") or noticed.get("chance"):
        return []
    chosen = [event for event in run.of("topk") if event["longest"] > event["k"]]
    if not chosen:
        return []
    highest = max(chosen, key=lambda event: event["k"] / event["longest"])
    chance = highest["k"] / highest["longest"]
    blind = chance >= HIGH and highest["call"] not in sound
    text = f"set overlap without its chance level: two random selections share {share(chance)} at {highest['longest']}."
    return [_finding("overlap_without_chance", "void" if blind else "note", text, noticed.get("overlap"))]


def _tolerances(run: Any) -> list[dict[str, Any]]:
    found = []
    seen = set()
    for event in run.of("close"):
        what = f"{event['how']} with rtol {number(event['rtol'])} and atol {number(event['atol'])}"
        if event["zeros"] or event["mirrored"]:
            wrong = " and ".join(
                text for name, text in (("zeros", "all zeros"), ("mirrored", "each row's values at mirrored positions")) if event[name]
            )
            found.append(("too_wide", "void", f"{what} takes {wrong} for right."))
        if event["refuses_rounding"]:
            found.append(("too_narrow", "void", f"{what} refuses what another order of summing in fp32 changes (2^-20 of the largest)."))
        if event["nan"] and event["equal_nan"]:
            found.append(
                ("equal_nan", "void", f"{what} takes NaN for equal to NaN; {100 * event['nan']:.2f} % of what is expected is NaN.")
            )
        if event["both"]:
            found.append(("both_from_kernel", "note", f"{what} compares two answers of the kernel: equal is not right."))
    return [_finding(*entry) for entry in found if not (entry in seen or seen.add(entry))]
