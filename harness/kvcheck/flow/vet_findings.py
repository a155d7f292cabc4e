"""From what was seen of a script to sentences: what its inputs, its metric and its conclusion can and cannot prove."""

from __future__ import annotations

from typing import Any

from kvcheck.flow.vet_metric import metric
from kvcheck.report.words.numbers import listed, number, some

Finding = dict[str, Any]


def finding(part: str, name: str, level: str, sentence: str, lines: list[int] | None = None) -> Finding:
    """One finding.

    Args:
        part: inputs, metric or conclusion.
        name: its id.
        level: void (the script cannot prove what it says), note (a weakness beside), good (what speaks for the script).
        sentence: for people.
        lines: of the script.
    """
    return {"part": part, "id": name, "level": level, "sentence": sentence, "lines": lines or []}


def judge(noticed: dict[str, list[int]], honest: Any, *, stopped: bool, installed: bool) -> list[Finding]:
    """All findings of one run.

    Args:
        noticed: lines by kind (`vet_source.examine`).
        honest: the run (`vet.Run`).
        stopped: whether it did not come to its end.
        installed: whether the installed kernels answered, and not stand-ins that are exact.
    """
    calls = [call for call in honest.of("call") if not call["reference"]]
    if not calls:
        return _unrun(noticed) + [_unread(event) for event in honest.of("unread")[:1]]
    found = _inputs(calls, noticed) + [_unread(event) for event in honest.of("unread")[:1]]
    found += metric(noticed, honest, calls, stopped=stopped)
    if any(entry["id"] == "positional" for entry in found):
        found.append(_not_shown(honest))
    asserted = [event for event in honest.of("end") if event.get("assertion") or (event.get("code") and not event.get("error"))]
    if asserted and not installed:
        where = f" (line {asserted[0]['place']})" if asserted[0].get("place") else ""
        text = f"it fails with stand-ins that compute the plain formula exactly{where}: it would blame an honest kernel."
        found.append(finding("conclusion", "blames_honest", "void", text))
    return found


def points(run: Any) -> list[dict[str, Any]]:
    """One row a call: what was asked and what its comparison read."""
    rows = []
    for call in run.of("call"):
        if call["reference"]:
            continue
        mine = [event for event in run.events if event.get("call") == call["call"] and event["type"] != "call"]
        chosen = next((event for event in mine if event["type"] == "topk"), {})
        lists = next((event for event in mine if event["type"] == "positional"), {})
        k = lists.get("k", chosen.get("k"))
        rows.append(
            {
                **{name: call[name] for name in ("call", "entry", "context_len", "longest", "num_heads", "nan_tokens", "reference_finite")},
                "k": k,
                "positional": lists.get("positional"),
                "overlap": lists.get("overlap"),
                "chance": None if k is None or not call["longest"] else min(1.0, k / call["longest"]),
                "trivial": None if k is None else k >= call["longest"],
            }
        )
    return rows


def _inputs(calls: list[dict[str, Any]], noticed: dict[str, list[int]]) -> list[Finding]:
    found = []
    tokens = max(sum(call["tokens"] for call in calls), 1)

    def share(name: str) -> float:
        return sum(call[name] * call["tokens"] for call in calls) / tokens

    lines = noticed.get("random_bytes")
    if share("nan_tokens"):
        text = (
            f"{_percent(share('nan_tokens'))} of tokens hold a NaN code: no order is defined among them, and two honest kernels may differ"
        )
        found.append(finding("inputs", "nan_codes", "void", text + " (a GPU's max(NaN, 0) is 0, torch's relu keeps the NaN).", lines))
    if share("scales_nonfinite") or share("scales_negative"):
        ranges = [call["scales_range"] for call in calls if call["scales_range"]]
        span = f", magnitudes {number(min(low for low, _ in ranges), 2)} to {number(max(high for _, high in ranges), 2)}" if ranges else ""
        text = f"scales: {_percent(share('scales_negative'))} negative, {_percent(share('scales_nonfinite'))} not finite{span}; "
        found.append(finding("inputs", "scales", "void", text + "a quantiser writes positive ones of the size amax / 448.", lines))
    finite = min(call["reference_finite"] for call in calls)
    if finite < 1:
        text = f"only {_percent(finite)} of the reference's logits are finite (at the worst call): what the rest should be is not defined."
        found.append(finding("inputs", "reference_not_finite", "void", text, lines))
    if any(call["q_nan"] or call["weights_nonfinite"] for call in calls):
        found.append(finding("inputs", "query_not_finite", "void", "queries or head weights hold values that are not finite."))
    if any(call["logits_equal"] for call in calls):
        found.append(finding("inputs", "all_equal", "void", "all logits of a call are equal: any selection is a right one."))
    split = {(c["num_heads"], c["chunk_q"], c["chunk_q_given"]) for c in calls if c["chunk_q"] and c["num_heads"] % c["chunk_q"]}
    for heads, chunk, given in sorted(split):
        why = "heads // ChunkQ is 0, a ZeroDivisionError" if heads < chunk else "the heads are no multiple of ChunkQ"
        text = (
            f"ChunkQ {'of' if given else 'default'} {chunk} with {heads} heads: dies before it measures ({why}) where aiter is unpatched."
        )
        found.append(finding("inputs", "heads_below_chunk", "void", text))
    if all(call["table"].startswith("ascending") for call in calls):
        text = "every block table counts up from 0: a kernel that never reads its table answers the same."
        found.append(finding("inputs", "table_ascending", "note", text))
    if noticed.get("float8_literal"):
        text = "the FP8 type is written out: gfx942 kernels take e4m3fnuz, where the same bytes mean half as much and 0x80 is NaN."
        found.append(finding("inputs", "float8_literal", "note", text, noticed["float8_literal"]))
    return found


def contrast(honest: Any, planted: Any) -> list[Finding]:
    """What a planted fault changes: nothing, what is printed, or the exit status."""
    mirrored = "with every answer at its row's mirrored position"
    if (planted.code, planted.printed) == (honest.code, honest.printed):
        text = f"{mirrored} it prints the same and ends the same: it cannot see a wrong kernel."
        return [finding("conclusion", "sees_nothing", "void", text)]
    if planted.code == honest.code:
        text = f"{mirrored} its exit status stays {honest.code}: whether a kernel is right is left to the reader of what it prints."
        return [finding("conclusion", "status_blind", "note", text)]
    return [finding("conclusion", "sees_mirrored", "good", f"{mirrored} it fails, with exact answers it does not.")]


def _not_shown(honest: Any) -> Finding:
    text = "a low number is no evidence of a fault"
    trivial = [row["longest"] for row in points(honest) if row["trivial"]]
    if trivial:
        text += f", 1.0000 at {_lengths(trivial)} none of correctness, and a change at k is the metric's before it is the kernel's"
    return finding("conclusion", "not_shown", "void", text + ".")


def _unrun(noticed: dict[str, list[int]]) -> list[Finding]:
    """What the text alone says."""
    known = {
        "random_bytes": (
            "inputs",
            "void",
            "the cache is made of random bytes: some are NaN in FP8, and scales read from them are arbitrary.",
        ),
        "float8_literal": ("inputs", "note", "the FP8 type is written out: gfx942 kernels take e4m3fnuz."),
        "topk_of_min": ("metric", "void", "k = min(..., length): on rows no longer than k every selection passes."),
        "sorted_lists": ("metric", "void", "sorted index lists are compared entry by entry: one differing member shifts all that follow."),
        "finite_filler": ("metric", "note", "a finite filler stands for what has no logit: logits below it lose to it."),
        "equal_nan": ("metric", "note", "NaN is taken for equal to NaN."),
    }
    return [finding(part, kind, level, text, noticed[kind]) for kind, (part, level, text) in known.items() if kind in noticed]


def _unread(event: dict[str, Any]) -> Finding:
    return finding("inputs", "unread", "note", f"a call of {event['entry']} could not be read: {event['why']}")


def _percent(value: float) -> str:
    return f"{100 * value:.2f} %"


def _lengths(values: list[int]) -> str:
    distinct = sorted(set(values))
    return listed([str(value) for value in distinct]) if len(distinct) <= 6 else some(len(distinct), "length")
