"""The closing words of a report: what was found, and what it does and does not show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from kvcheck.report.words import cleared, diagnosis, emulated, known, relations, rows
from kvcheck.report.words.clean import line
from kvcheck.report.words.numbers import count, listed, number, some
from kvcheck.report.words.thresholds import threshold_sentence

Quote = Callable[[str], str]

OLD_WHEEL = "0.1.7.post2.dev18"
"""The only amd-aiter on the package index: 2025-11, before the mask was corrected on 2025-11-18."""


def headline(run: dict[str, Any]) -> str:
    """The outcome in one line without foreign text."""
    cases = run["cases"]
    judged = [row for row in cases if rows.is_judged(row)]
    failing = [row for row in judged if rows.is_failure(row)]
    if not judged:
        return f"nothing could be judged: {some(len(cases), 'case')}, no verdict on a kernel" if cases else "no case was run"
    if not failing:
        text = "the one judged case passes" if len(judged) == 1 else f"all {count(len(judged))} judged cases pass"
        return text + _known(judged)
    return f"{count(len(failing))} of {some(len(judged), 'judged case')} {'fails' if len(failing) == 1 else 'fail'}" + _known(judged)


def _known(judged: list[dict[str, Any]]) -> str:
    """What the headline says of known failures."""
    states = Counter(known.state(row) for row in judged)
    text = f", {count(states['known'])} known" if states["known"] else ""
    passing = states["passes"]
    return text + (f", {some(passing, 'known failure')} {'passes' if passing == 1 else 'pass'} now" if passing else "")


def findings(run: dict[str, Any], quote: Quote = line) -> list[str]:
    """Paragraphs that say what was found.

    Args:
        run: run.json.
        quote: how foreign text (names, reasons) is written; a code span in Markdown.

    Returns:
        paragraphs: one string each, no line breaks.
    """
    cases = run["cases"]
    paragraphs = [headline(run)[:1].upper() + headline(run)[1:] + ".", *providers(run, quote), *known.sentences(run, quote)]
    paragraphs += [threshold_sentence(threshold, quote) for threshold in run.get("thresholds") or []]
    closing = diagnosis.closing([row for row in cases if rows.is_failure(row)], quote)
    cleared_by = cleared.sentence(run, quote)
    return [*paragraphs, *([cleared_by] if cleared_by else []), *([closing] if closing else []), *remarks(run, quote)]


def providers(run: dict[str, Any], quote: Quote = line) -> list[str]:
    """A paragraph for each provider; as `findings`."""
    cases, paragraphs = run["cases"], []
    for name in dict.fromkeys(str(row.get("provider")) for row in cases):
        paragraphs.append(_provider(name, [row for row in cases if str(row.get("provider")) == name], quote))
    return paragraphs


def remarks(run: dict[str, Any], quote: Quote = line) -> list[str]:
    """What the numbers do and do not show; as `findings`."""
    cases = run["cases"]
    last = (
        _repeats(cases),
        emulated.beside(run, quote),
        relations.sentence(cases, quote),
        _trivial(cases),
        _positional(cases),
        _old_wheel(run),
        _plain_triton(run),
        emulated.notice(run, quote),
    )
    return [text for text in last if text]


def _provider(name: str, cases: list[dict[str, Any]], quote: Quote) -> str:
    judged = [row for row in cases if rows.is_judged(row)]
    passing = [row for row in judged if not rows.is_failure(row)]
    wrong = Counter(rows.verdict(row) for row in judged if rows.is_failure(row))
    parts = [f"passes {count(len(passing))} of {count(len(judged))} judged cases"] if judged else ["no case was judged"]
    if wrong:
        parts[0] += f" ({', '.join(f'{count(n)} {verdict}' for verdict, n in wrong.most_common())})"
    measured = [row for row in passing if isinstance((row.get("metrics") or {}).get("max_bound_ratio"), (int, float))]
    measured = [row for row in measured if not rows.trivial(row, "max_bound_ratio")]
    if measured:
        worst = max(row["metrics"]["max_bound_ratio"] for row in measured)
        models = listed([quote(model) for model in dict.fromkeys(rows.precision(row) for row in measured)])
        parts.append(f"largest ratio to the bound where it passes {number(worst, 3)}, precision {models}")
    for verdict in ("unsupported", "invalid_case", "harness_error"):
        reasons = Counter(line(row.get("message"), 200) for row in cases if rows.verdict(row) == verdict)
        if reasons:
            reason, _ = reasons.most_common(1)[0]
            more = f", and {some(len(reasons) - 1, 'other reason')}" if len(reasons) > 1 else ""
            parts.append(f"{count(sum(reasons.values()))} {verdict}: {quote(reason) or 'no reason given'}{more}")
    return f"{quote(name)}: {'; '.join(parts)}."


def _repeats(cases: list[dict[str, Any]]) -> str | None:
    """How often the passing cases were run in new processes, and what that excludes."""
    rates = [row["repeats"] for row in cases if (row.get("repeats") or {}).get("excluded_rate") is not None]
    if not rates:
        return None
    fewest = min(rates, key=lambda entry: entry["processes"])
    return (
        f"Passing cases agree bit for bit in {count(fewest['processes'])} new processes each: a fault that shows in more than "
        f"{100 * fewest['excluded_rate']:.1f} % of processes would have been seen (95 % confidence)."
    )


def _trivial(cases: list[dict[str, Any]]) -> str | None:
    judged = [row for row in cases if rows.is_judged(row)]
    blind = [row for row in judged if rows.trivial(row, "topk_set_match")]
    if not blind:
        return None
    text = f"In {count(len(blind))} of {some(len(judged), 'judged case')} no row is longer than topk: top-k could not have failed"
    return text + " there, its metrics are trivial and no evidence of a pass; in those cases the other checks decided."


def _positional(cases: list[dict[str, Any]]) -> str | None:
    shown = [
        row for row in cases if rows.verdict(row) == "invalid_case" and (row.get("metrics") or {}).get("topk_positional_match") is not None
    ]
    if not shown:
        return None
    return (
        "Positional match compares sorted lists of min(topk, length) positions entry by entry, as quick reproducers do: up to topk it "
        "selects every position and is no evidence that a kernel is right, past it one differing member shifts all that follow and a "
        "low number is no evidence that a kernel is wrong. On an invalid case neither is."
    )


def _old_wheel(run: dict[str, Any]) -> str | None:
    installed = str((run.get("environment") or {}).get("aiter") or "")
    mine = [row for row in run["cases"] if _is_aiter(row) and "@" not in str(row.get("provider"))]
    if not any(str(row.get("provider_version") or installed).startswith(OLD_WHEEL) for row in mine):
        return None
    text = (
        f"The amd-aiter wheel {OLD_WHEEL} is of 2025-11 and old; newer releases are published elsewhere (ROCm/aiter and its "
        "container images). It is judged here as a demonstration that needs no GPU."
    )
    if any(rows.is_failure(row) for row in mine):
        text += " What fails here says nothing about newer releases."
    return text


def _plain_triton(run: dict[str, Any]) -> str | None:
    mine = [row for row in run["cases"] if _is_aiter(row) and rows.is_judged(row)]
    kernels = [str(row.get("dispatch") or "").lower() for row in mine]
    if not any("plain triton" in kernel or ("triton" in kernel and "gluon" not in kernel) for kernel in kernels):
        return None
    return (
        "The verdicts on aiter are of its plain Triton kernels; gfx942 and gfx950 with Triton 3.5 and newer take Gluon kernels "
        "instead, which were not judged here."
    )


def _is_aiter(row: dict[str, Any]) -> bool:
    return str(row.get("provider", "")).partition("@")[0].partition(":")[0] == "aiter"
