"""The head of the page: the outcome, who passes how much, and what was found in words."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kvcheck.report._html.markup import badge, kind, prose, quote, section, text
from kvcheck.report._html.palette import KINDS, MEANING, SYMBOLS
from kvcheck.report.words import findings, rows, threshold_sentence
from kvcheck.report.words.findings import headline
from kvcheck.report.words.numbers import count, some

Row = dict[str, Any]

PROVIDERS = 12
"""Providers that have a line of their own."""


def head(run: dict[str, Any]) -> str:
    """Title, when and where, and the verdicts of all cases as one bar."""
    info, cases = run.get("run") or {}, run["cases"]
    device = (run.get("environment") or {}).get("device") or {}
    facts = [text(str(info.get("started") or "").replace("T", " ")[:16]), text(device.get("name") or device.get("type") or "", 80)]
    if isinstance(info.get("wall_s"), (int, float)):
        facts.append(f"{_lasted(info['wall_s'])}")
    facts.append(some(len(cases), "case"))
    title = headline(run)
    return (
        f'<p class="eyebrow">kvcheck <span class="soft">{text(info.get("id") or "", 120)}</span></p>'
        f'<h1>{title[:1].upper() + title[1:]}</h1><p class="facts">{" · ".join(fact for fact in facts if fact)}</p>'
        f"{_bar(Counter(kind(rows.verdict(row)) for row in cases))}{_counts(cases)}"
    )


def summary(run: dict[str, Any]) -> str:
    """Providers side by side, then the sentences that say what was found."""
    flips = {threshold_sentence(threshold, quote) for threshold in run.get("thresholds") or []}
    said = [sentence for sentence in findings(run, quote)[1:] if sentence not in flips]
    paragraphs = "".join(f"<p>{prose(sentence)}</p>" for sentence in said)
    return section("found", "What was found", _providers(run["cases"]) + f'<div class="prose">{paragraphs}</div>')


def _lasted(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _bar(kinds: Counter[str]) -> str:
    """Parts of a whole as lengths; the numbers beside it say the same."""
    parts = "".join(f'<span class="{name}" style="flex-grow:{kinds[name]}"></span>' for name in KINDS if kinds[name])
    return f'<div class="bar" aria-hidden="true">{parts}</div>'


def _counts(cases: list[Row]) -> str:
    """How many of each verdict."""
    verdicts = Counter(rows.verdict(row) for row in cases)
    order = sorted(verdicts, key=lambda verdict: (KINDS.index(kind(verdict)), -verdicts[verdict], verdict))
    items = "".join(f"<li>{badge(verdict)} <b>{count(verdicts[verdict])}</b></li>" for verdict in order)
    return f'<ul class="counts" aria-label="Verdicts">{items}</ul>'


def _providers(cases: list[Row]) -> str:
    """A line a provider: how much passes, fails, was not judged."""
    groups: dict[str, list[Row]] = {}
    for row in cases:
        groups.setdefault(str(row.get("provider")), []).append(row)
    order = sorted(groups, key=lambda name: -sum(rows.is_failure(row) for row in groups[name]))
    met = {kind(rows.verdict(row)) for row in cases}
    columns = [each for each in KINDS if each in met]
    lines = []
    for name in order[:PROVIDERS]:
        kinds = Counter(kind(rows.verdict(row)) for row in groups[name])
        version = next((str(row["provider_version"]) for row in groups[name] if row.get("provider_version")), "")
        version = "" if version.startswith(f"{name} ") else version
        numbers = "".join(
            f'<td class="n"><span class="{each}">{SYMBOLS[each]}</span> {count(kinds[each])}</td>'
            if kinds[each]
            else '<td class="n">0</td>'
            for each in columns
        )
        label = f'<b>{text(name, 80)}</b> <span class="soft">{text(version, 60)}</span>'
        lines.append(f'<tr><th scope="row">{label}</th><td class="share">{_bar(kinds)}</td>{numbers}</tr>')
    heads = "".join(f'<th scope="col">{MEANING[each]}</th>' for each in columns)
    more = f'<p class="note">{some(len(order) - PROVIDERS, "more provider")} in the table of cases.</p>' if len(order) > PROVIDERS else ""
    top = f'<tr><th scope="col">provider</th><td class="share"></td>{heads}</tr>'
    return (
        '<div class="wide" role="region" aria-label="Providers" tabindex="0"><table class="providers"><caption class="sr">Cases by provider'
        f"</caption><thead>{top}</thead><tbody>{''.join(lines)}</tbody></table></div>{more}"
    )
