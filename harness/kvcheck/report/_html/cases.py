"""Every case as a line of a table that can be sorted and searched; where there are too many, those that tell most."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kvcheck.report._html.axes import value, varied
from kvcheck.report._html.markup import badge, kind, section, text
from kvcheck.report._html.palette import KINDS, MEANING
from kvcheck.report.words import choose, known, rows
from kvcheck.report.words.numbers import count, number, share

Row = dict[str, Any]

LINES = 1200
"""Cases that are listed."""

COLUMNS = 9
"""Axes that have a column; the id names all of them."""

NUMBERS = ("ratio to bound", "set match", "chance")


def cases(run: dict[str, Any]) -> str:
    """The section with its table, and the search above it."""
    every = run["cases"]
    if not every:
        return ""
    shown = every if len(every) <= LINES else _fitting(every)
    names = _axes(every)
    files = len({row.get("case_file") for row in every}) > 1
    heads = ["verdict", "provider", *(["case file"] if files else []), *names, *NUMBERS, "first wrong, or why", "case id"]
    top = "".join(f'<th scope="col"><button type="button" data-sort="{at}">{text(head, 40)}</button></th>' for at, head in enumerate(heads))
    body = "".join(_line(row, names, files) for row in shown)
    note = _cut(every, shown) if len(shown) < len(every) else "A click on a heading sorts."
    table = (
        f'<div class="wide tall" role="region" aria-label="Cases" tabindex="0"><table id="list"><caption class="sr">Cases</caption>'
        f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    return section("cases", "Every case" if len(shown) == len(every) else "Cases", _search(shown) + table, note)


def _axes(every: list[Row]) -> list[str]:
    """Axes that vary within an op, those of most cases first."""
    ops: dict[str, list[Row]] = {}
    for row in every:
        ops.setdefault(str(row.get("op")), []).append(row)
    weight: Counter[str] = Counter()
    for mine in ops.values():
        weight.update(dict.fromkeys(varied(mine), len(mine)))
    return [name for name, _ in weight.most_common(COLUMNS)]


def _fitting(every: list[Row]) -> list[Row]:
    """Failing cases of every kind first, then the passes nearest to the bound, in the run's order."""
    failing = [rows.is_failure(row) for row in every]
    if sum(failing) <= LINES * 3 // 4:
        others = [row for row, bad in zip(every, failing, strict=True) if not bad]
        kept = {id(row) for row in choose.most_telling(others, LINES - sum(failing))}
        return [row for row, bad in zip(every, failing, strict=True) if bad or id(row) in kept]
    return choose.most_telling(every, LINES)


def _cut(every: list[Row], shown: list[Row]) -> str:
    wrong = [sum(rows.is_failure(row) for row in some) for some in (shown, every)]
    kept = "all that fail" if wrong[0] == wrong[1] else f"{count(wrong[0])} of the {count(wrong[1])} that fail, each way of failing in turn"
    return (
        f"{count(len(shown))} of {count(len(every))} cases: {kept}, and of the others those nearest to failing. "
        "run.json and results.csv beside this file hold every one. A click on a heading sorts."
    )


def _search(shown: list[Row]) -> str:
    kinds = Counter(kind(rows.verdict(row)) for row in shown)
    options = "".join(f'<option value="{name}">{MEANING[name]} ({count(kinds[name])})</option>' for name in KINDS if kinds[name])
    return (
        '<div class="search" hidden><label for="find">Search</label> <input id="find" type="search" autocomplete="off" spellcheck="false" '
        'placeholder="e.g. context_len=4096 nonfinite"> <label for="kind">Show</label> '
        f'<select id="kind"><option value="">all ({count(len(shown))})</option>{options}</select>'
        '<output id="told" for="find kind" aria-live="polite"></output></div>'
    )


def _line(row: Row, names: list[str], files: bool) -> str:
    verdict = rows.verdict(row)
    metrics = row.get("metrics") or {}
    numbers = [
        rows.ratio(row, model=False),
        "trivial" if rows.trivial(row, "topk_set_match") else share(metrics.get("topk_set_match")),
        "trivial" if rows.trivial(row, "topk_set_match_chance") else number(metrics.get("topk_set_match_chance"), 4),
    ]
    ending = "" if verdict == "pass" else rows.place(row) or row.get("message") or ""
    held = {name: value(row, name) for name in names}
    swept = rows.axes(row)[1]
    beside = " ".join(f"{name}={text.replace(' ', '_')}" for name, text in held.items() if text is not None and name not in swept)
    cells = [text(row.get("provider"), 80), *([text(row.get("case_file"), 80)] if files else [])]
    cells += [text(held[name] or "", 60) for name in names]
    plain = "".join(f"<td>{cell}</td>" for cell in cells) + "".join(f'<td class="n">{text(cell, 40)}</td>' for cell in numbers)
    last = f'<td class="what">{text(ending, 160)}</td><td class="id"><code>{text(row.get("id"), 400)}</code></td>'
    more = f' data-more="{text(beside, 400)}"' if beside else ""
    tag = f' <span class="soft">{text(known.tag(row), 60)}</span>' if known.tag(row) else ""
    return f'<tr class="{kind(verdict)}"{more}><th scope="row">{badge(verdict)}{tag}</th>{plain}{last}</tr>'
