"""Sentences about a bisect: how far it is, what was found, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kvcheck.report.words.clean import line
from kvcheck.report.words.numbers import count, listed, some

Quote = Callable[[str], str]

NOUNS = {"images": ("image", "images"), "git": ("commit", "commits"), "wheels": ("version", "versions")}
ENOUGH = 0.95


def nouns(kind: str) -> tuple[str, str]:
    """What one candidate of a kind is called, and several."""
    return NOUNS.get(kind, ("candidate", "candidates"))


def duration(seconds: float | None) -> str:
    """`12 s`, `4 min`, `2 h 05 min`."""
    if seconds is None:
        return "-"
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def short(key: str) -> str:
    """A key as a reader takes it in: digests and commits cut, all else as it is."""
    head, colon, rest = key.rpartition(":")
    digest = len(rest) in (40, 64) and all(character in "0123456789abcdef" for character in rest)
    return line(f"{head}{colon}{rest[:12]}" if digest else key, 80)


def progress(number: int, left: int, seconds: float | None, label: str, key: str) -> str:
    """The line before a step: which it is, how many are left, and for how long."""
    time = f", about {duration(seconds * (left + 1))}" if seconds is not None else ""
    what = line(label, 100) + (f" ({short(key)})" if short(key) not in label else "")
    return f"step {number}, about {left} left{time}: {what}"


def answered(step: dict[str, Any], failures: list[str]) -> str:
    """The line behind a step: what came of it."""
    how = f": {line(', '.join(dict.fromkeys(failures)), 300)}" if failures else ""
    kind = step["kind"] or ("fails" if failures else "passes")
    reason = f": {line(step['reason'], 300)}" if step["reason"] else ""
    note = f" ({line(step['note'], 200)})" if step["note"] else ""
    return f"  {kind} in {duration(step['wall_s'])}{how}{reason}{note}"


def conclusion(data: dict[str, Any], name: Callable[[int], str], quote: Quote) -> str:
    """What was found, or why nothing was, in a few sentences.

    Args:
        data: of schema kvcheck.bisect/1, with a result.
        name: a candidate in words, by its place in the range.
        quote: how foreign text is written.
    """
    result, last = data["result"], len(data["candidates"]) - 1
    fix = data["find"] == "fix"
    ends = {"good": last, "bad": 0} if fix else {"good": 0, "bad": last}
    outcome = result["outcome"]

    def reason(which: int) -> str:
        answer = result["answers"].get(str(which)) or {}
        return f": {quote(answer['reason'])}" if answer.get("reason") else ""

    def times(which: int) -> str:
        answer = result["answers"].get(str(which)) or {}
        runs = answer.get("runs", 1)
        return f" in {answer.get('failures', 0)} of {runs} runs" if runs > 1 else ""

    if outcome == "bad end is good":
        bad = ends["bad"]
        where = "Name another --bad, or more --runs where the fault does not always show."
        return f"The bad end is good: no case fails at {name(bad)}{times(bad)}{reason(bad)}. Nothing was searched. {where}"
    if outcome == "good end is bad":
        good = ends["good"]
        same = data["candidates"][0]["key"] == data["candidates"][last]["key"]
        if same:
            return f"The good end is bad: both ends are one and the same, {name(good)}. Nothing was searched."
        where = f"The fault is {'still in it' if fix else 'older'}: name another --good."
        if not fix:
            where += " For the change that mended it: --find fix."
        return f"The good end is bad: {name(good)} fails like {name(ends['bad'])}{times(good)}. Nothing was searched. {where}"
    if outcome.endswith("end unknown"):
        which = outcome.split()[0]
        tried = [int(index) for index in result["answers"]]
        why = f"The {which} end has no answer: {name(ends[which])}{reason(ends[which])}."
        others = [index for index in tried if index not in (0, last)]
        inward = (
            f" Nor could {some(len(others), 'candidate')} further in stand in for it ({listed([name(i) for i in others], 3)})."
            if others
            else ""
        )
        return f"{why}{inward} Without that end there is nothing to search."
    good, bad = result["good"], result["bad"]
    what = told(result["sought"]["identity"])
    verb = "goes" if fix else "comes in"
    old, new = ("bad", "good") if fix else ("good", "bad")
    before, after = (bad, good) if fix else (good, bad)
    both = f"the last {old} one is {name(before)}, the first {new} one {name(after)}"
    if outcome == "found":
        return f"The fault ({quote(what)}) {verb} with {name(after)}: {both}. Both were run again and answered alike."
    if outcome == "bracket":
        left = len(result["untried"])
        which = (
            f"{some(len(result['between']), 'candidate')} between them could not be judged"
            if not left
            else (
                f"of {some(len(result['between']), 'candidate')} between them {count(len(result['between']) - left)} could not be judged "
                f"and {count(left)} were not tried (--unknown-limit)"
            )
        )
        return f"No single change was found. The fault ({quote(what)}) {verb} between them: {both}, and {which}."
    again = {int(index): answer for index, answer in result["again"].items()}
    if outcome == "contradicted":
        against = [
            f"{name(i)} was {'good' if i == good else 'bad'} and is {again[i]['kind']} when run again{_share(again[i])}"
            for i in (good, bad)
            if again[i]["kind"] not in ("unknown", "good" if i == good else "bad")
        ]
        advice = "The fault does not show in every run, or something outside of the candidates changes it: ask for more --runs."
        return f"No boundary was found: {' and '.join(against)}. The search had come to this: {both}. {advice}"
    silent = [f"{name(i)} ({quote(again[i]['reason'])})" for i in (good, bad) if again[i]["kind"] == "unknown"]
    return f"The boundary is not confirmed: {' and '.join(silent)} gave no answer when run again. The search had come to this: {both}."


def told(identity: Sequence[str]) -> str:
    """A failure's identity in words."""
    verdict, output, check = [*identity, "", ""][:3]
    return line(verdict + (f" of {output}" if output else "") + (f" ({check})" if check and check != output else ""), 200)


def confidence(data: dict[str, Any]) -> str | None:
    """How sure the good answers are of a fault that may not show in every run; None where nothing is known."""
    rate, runs = data["result"]["rate"], data["runs"]
    if not rate:
        return None
    if rate["runs"] == 1:
        return (
            "Every answer rests on one run. The bad end failed in the one run that it had, which does not tell how often the fault "
            "shows: where it may be flaky, ask for --runs 10."
        )
    text = f"The bad end failed in {rate['failures']} of {rate['runs']} runs: p is about {rate['p']:.2f}, "
    text += f"and at least {rate['p_at_least']:.2f} (95 %). A good answer takes {runs} passes, so it is right with confidence "
    text += f"1-(1-p)^{runs} = {percent(rate['confidence'])} (at least {percent(rate['confidence_at_least'])})."
    return text + (f" For 95 % an answer takes --runs {rate['needed']}." if rate["confidence"] < ENOUGH else "")


def percent(share: float) -> str:
    """A chance in percent; never 100 % where it is less."""
    if share == 1:
        return "100 %"
    digits = next((n for n in range(1, 8) if round(100 * share, n) < 100), 8)
    return f"{100 * share:.{digits}f} %"


def _share(answer: dict[str, Any]) -> str:
    return (
        f" ({answer['failures']} of {answer['runs']} runs fail)"
        if answer["runs"] > 1 or answer["failures"]
        else f" ({some(answer['runs'], 'run')})"
    )
