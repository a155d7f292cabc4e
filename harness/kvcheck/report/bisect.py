"""The end of a bisect in Markdown, to paste into an issue: what was searched, each step, the boundary and the command that repeats it.

Text from candidates, packages and kernels stands in code spans and fences only.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

from kvcheck.report.words import error_text, threshold_sentence
from kvcheck.report.words.bisected import answered, conclusion, confidence, duration, nouns, progress, short, told
from kvcheck.report.words.clean import clean, code, fence
from kvcheck.report.words.numbers import count, listed, some
from kvcheck.report.words.sections import table

__all__ = ["answered", "progress", "render", "render_json"]

SHOWN = 60
"""Rows of a table."""

CASES = 10
HIDDEN = ("contents_key",)
"""Facts of a step that a reader has no use for; so are those that begin with an underscore."""


def render(data: dict[str, Any]) -> str:
    """The report.

    Args:
        data: bisect.json, with a result.
    """
    result = data["result"]
    parts = [f"## kvcheck bisect {code(data['kind'], 20)}: {_headline(data)}", conclusion(data, lambda i: _name(data, i), code)]
    parts += _caveats(data)
    if result["good"] is not None:
        parts += _boundary(data)
        parts += _differences(data)
        parts += _evidence(data)
        parts += _cases(data)
    parts += ["### Steps", _steps(data)]
    parts += _others(data)
    parts += _extra(data)
    parts += _deeper(result)
    parts += ["### Searched", _searched(data), "### Reproduce with", fence(_command(data), 4000)]
    return "\n\n".join(part for part in parts if part) + "\n"


def render_json(data: dict[str, Any]) -> str:
    """The same as JSON: bisect.json as it is."""
    return json.dumps(data, indent=1) + "\n"


def _headline(data: dict[str, Any]) -> str:
    result = data["result"]
    if result["outcome"] == "found":
        first = result["good"] if data["find"] == "fix" else result["bad"]
        return f"{'fixed' if data['find'] == 'fix' else 'broken'} by {code(data['candidates'][first]['label'], 80)}"
    return {"bracket": "narrowed down, not found", "unconfirmed": "not confirmed", "contradicted": "no boundary, answers contradict"}.get(
        result["outcome"], f"not searched, {result['outcome']}"
    )


def _name(data: dict[str, Any], index: int) -> str:
    candidate = data["candidates"][index]
    label, key = candidate["label"], short(candidate["key"])
    return code(label, 100) + (f" ({code(key, 80)})" if key not in label else "")


def _caveats(data: dict[str, Any]) -> list[str]:
    result = data["result"]
    lines = [
        f"- The {which} end that was named, {_name(data, named)}, has no answer; {_name(data, taken)} was taken for it."
        for which, named, taken in result["moved"]
    ]
    lines += [
        f"- Not one change but several: {_name(data, i)} is bad, and {_name(data, j)} on its other side is good. This is one of them."
        for i, j in result["turns"]
    ]
    lines += _explained(data)
    sure = confidence(data)
    lines += [f"- {sure}"] if sure else []
    lines += [f"- {code(note, 600)}" for note in data["notes"]]
    return ["\n".join(lines)] if lines else []


def _explained(data: dict[str, Any]) -> list[str]:
    """Bad candidates that fail alike, but for another reason as far as the diagnosis goes."""
    if data["result"]["bad"] is None:
        return []
    bad = [step for step in data["steps"] if step["kind"] == "bad" and step.get("explained")]
    first = next((step for step in bad if step["index"] == data["result"]["bad"]), None)
    others = [step for step in bad if first and not set(step["explained"]) & set(first["explained"])]
    if not others:
        return []
    mine = listed([code(f"fault:{fault}", 80) for fault in first["explained"]])
    told_ = listed([f"{code(s['label'], 60)} ({listed([code('fault:' + fault, 80) for fault in s['explained']])})" for s in others], 4)
    return [f"- The first bad one is explained by {mine}, but not {told_}: they fail alike, and may be two bugs."]


def _boundary(data: dict[str, Any]) -> list[str]:
    result = data["result"]
    order = [("first good", "good"), ("last bad", "bad")] if data["find"] == "fix" else [("last good", "good"), ("first bad", "bad")]
    body = []
    for title, kind in order:
        index = result[kind]
        candidate, again = data["candidates"][index], result["again"].get(str(index)) or {}
        names = ", ".join(code(name, 80, table=True) for name in candidate["names"]) or "-"
        said = again.get("kind", "-")
        if again.get("runs", 1) > 1:
            said += f" ({again['failures']} of {again['runs']} runs fail)"
        if again.get("reason"):
            said += f": {code(again['reason'], 120, table=True)}"
        cells = [
            code(candidate["label"], 100, table=True),
            code(candidate["key"], 120, table=True),
            code(candidate["date"] or "", 40, table=True) or "-",
        ]
        body.append([title, *cells, names, said])
    between = ""
    if result["between"]:
        named = listed([code(data["candidates"][i]["label"], 60) for i in result["between"]], 8)
        between = f"Between them, without an answer: {named}."
    return ["### The boundary", table(("", nouns(data["kind"])[0], "key", "date", "other names", "run again"), body), between]


def _differences(data: dict[str, Any]) -> list[str]:
    result = data["result"]
    if result.get("contents_error"):
        return ["### What differs", f"Packages could not be compared: {code(result['contents_error'], 400)}"]
    changed = result.get("differences") or []
    if not changed:
        return ["### What differs", f"No package differs ({count(result['alike'])} compared)."] if result.get("alike") else []
    head = ("package", "last bad" if data["find"] == "fix" else "last good", "first good" if data["find"] == "fix" else "first bad")
    sides = ("bad", "good") if data["find"] == "fix" else ("good", "bad")
    body = [[code(d["package"], 60, table=True), *(code(d[side], 160, table=True) if d[side] else "-" for side in sides)] for d in changed]
    more = f"\n\nand {len(body) - SHOWN} more" if len(body) > SHOWN else ""
    return ["### What differs", table(head, body[:SHOWN]) + more]


def _evidence(data: dict[str, Any]) -> list[str]:
    row = data["result"].get("evidence")
    if not row:
        return []
    where = f"At {_name(data, data['result']['bad'])} (whole run: {code(row['folder'], 120)}):"
    key = data["candidates"][data["result"]["bad"]]["key"]
    thresholds = [entry for step in data["steps"] if step["key"] == key for entry in step.get("thresholds") or ()]
    flips = "\n".join(f"- {threshold_sentence(entry, code)}" for entry in thresholds)
    return ["### What fails", where, fence(error_text(row)), flips]


def _cases(data: dict[str, Any]) -> list[str]:
    """Which cases tell the neighbours apart."""
    result = data["result"]
    sides = [_runs_of(data, result[kind]) for kind in ("good", "bad")]
    if not all(sides):
        return []
    told_apart = [probe for probe in sides[1] if _said(sides[0], probe) != _said(sides[1], probe)]
    same = len(sides[1]) - len(told_apart)
    head = (
        "case",
        f"at {code(data['candidates'][result['good']]['label'], 60, table=True)}",
        f"at {code(data['candidates'][result['bad']]['label'], 60, table=True)}",
    )
    body = [[code(probe, 300, table=True), *(code(_said(side, probe), 120, table=True) for side in sides)] for probe in told_apart[:CASES]]
    if not body or len(sides[1]) == 1:
        return []
    more = f"{some(len(told_apart) - CASES, 'more case')} differ. " if len(told_apart) > CASES else ""
    return [
        "### Cases that tell them apart",
        table(head, body),
        f"{more}{some(same, 'case answers', 'cases answer')} alike in both." if same or more else "",
    ]


def _runs_of(data: dict[str, Any], index: int) -> list[dict[str, Any]]:
    key = data["candidates"][index]["key"]
    steps = [step for step in data["steps"] if step["key"] == key and step["why"] != "again" and not step.get("dropped")]
    return steps[-1]["runs"][-1] if steps and steps[-1]["runs"] else {}


def _said(run: dict[str, Any], probe: str) -> str:
    entry = run.get(probe) or {"kind": "silent"}
    if entry["kind"] == "fail":
        return told(entry["identity"])
    return "pass" if entry["kind"] == "pass" else "not judged"


def _steps(data: dict[str, Any]) -> str:
    one = nouns(data["kind"])[0]
    body = []
    for step in data["steps"]:
        if step.get("dropped"):
            continue
        failing = dict.fromkeys(told(entry["identity"]) for run in step["runs"] for entry in run.values() if entry["kind"] == "fail")
        said = ": ".join(text for text in (", ".join(failing), step["reason"]) if text)
        facts = [f"{key} {value}" for key, value in step["facts"].items() if not key.startswith("_") and key not in HIDDEN and value]
        what = "; ".join(str(text) for text in (said, step["note"], *facts) if text)
        runs = len(step["runs"])
        verdict = (step["kind"] or "-") + (
            f" ({sum(any(e['kind'] == 'fail' for e in r.values()) for r in step['runs'])} of {runs})" if runs > 1 else ""
        )
        cells = [code(step["label"], 80, table=True), code(short(step["key"]), 60, table=True)]
        body.append([str(step["number"]), *cells, step["why"], verdict, duration(step["wall_s"]), code(what, 300, table=True)])
    return table(("step", one, "key", "asked as", "verdict", "time", "what was seen"), body)


def _others(data: dict[str, Any]) -> list[str]:
    others = data["result"]["others"]
    if not others:
        return []
    lines = []
    for entry in others[:CASES]:
        where = listed([code(data["candidates"][i]["label"], 60) for i in entry["where"]], 6)
        lines.append(f"- {code(told(entry['identity']), 160)} in {code(entry['probe'], 200)} at {where}")
    more = f"\n- and {len(others) - CASES} more" if len(others) > CASES else ""
    return ["### Other failures on the way", "They are not the fault that was looked for, and decided nothing.", "\n".join(lines) + more]


def _extra(data: dict[str, Any]) -> list[str]:
    extra = data["result"].get("extra")
    if not extra:
        return []
    body = [[code(row["label"], 160, table=True), row["kind"], code(row["reason"], 200, table=True)] for row in extra["rows"]]
    return [f"### {code(extra['title'], 100)}", table(("", "verdict", "why"), body), code(extra["sentence"], 800)]


def _deeper(result: dict[str, Any]) -> list[str]:
    commands = result.get("deeper") or []
    parts = ["### One level deeper"] if commands or result.get("deep") else []
    if commands:
        parts.append(fence("\n".join(shlex.join(["kvcheck", *words]) for words in commands), 8000))
    deep = result.get("deep")
    if deep:
        code_ = deep["exit_code"]
        parts.append(
            f"--deep did not run it: {code(deep['why'], 200)}."
            if code_ is None
            else f"--deep ran the first; it ended with exit code {code_}."
        )
        if deep.get("report"):
            parts.append("\n".join(f"#{text}" if text.startswith("##") else text for text in clean(deep["report"]).strip().splitlines()))
    return parts


def _searched(data: dict[str, Any]) -> str:
    one, many = nouns(data["kind"])
    candidates, steps = data["candidates"], [step for step in data["steps"] if not step.get("dropped")]
    keys = {candidate["key"] for candidate in candidates}
    variants = [code(v, 60) for v in dict.fromkeys(c["variant"] for c in candidates if c["variant"])]
    device = " ".join(dict.fromkeys(str(value) for value in (data["device"] or {}).values()))
    lines = [
        f"- {some(len(candidates), one, many)} from {_name(data, 0)} to {_name(data, len(candidates) - 1)}",
        f"- {some(len(steps), 'step')} in {duration(sum(step['wall_s'] or 0 for step in steps))}, of {some(len(keys), 'candidate')} to try",
        f"- looking for {_aim(data)}, {some(data['runs'], 'run')} a good answer",
        f"- kvcheck {code(data['kvcheck'], 40)}, started {code(data['started'], 40)}" + (f", on {code(device, 80)}" if device else ""),
    ]
    return "\n".join(lines + ([f"- variant {listed(variants)}"] if variants else []))


def _command(data: dict[str, Any]) -> str:
    return clean(shlex.join(["kvcheck", *map(str, data["words"])]))


def _aim(data: dict[str, Any]) -> str:
    return "the fix" if data["find"] == "fix" else "the first bad one"
