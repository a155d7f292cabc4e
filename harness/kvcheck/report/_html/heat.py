"""The heat map: verdicts over two axes as a table of coloured cells, one for each pair of axes that is worth a look.

A table and not a drawing: a keyboard reaches its cells, a screen reader says their row and column, and it takes a phone's width.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from kvcheck.report._html.axes import is_number, ordered
from kvcheck.report._html.markup import picker, scrolled, section, text
from kvcheck.report._html.pairs import FEW, Cases, Pair, pairs
from kvcheck.report._html.palette import KINDS, MEANING, SYMBOLS
from kvcheck.report.words.numbers import count, some

Grid = dict[tuple[str, str], list[int]]

WRONG = frozenset({"fail", "broken"})

PAIRS = 20
"""Pairs of axes to choose from."""

OCTETS = 500_000
"""Size up to which further pairs are added."""

LINES = 24
"""Values of an axis that are shown one by one; more are put together."""


def heat(run: dict[str, Any]) -> str:
    """The section; empty where nothing is varied."""
    options, panels, size = [], [], 0
    known = pairs(run["cases"])
    several = len({pair.cases.op for pair in known}) > 1
    for pair in known[:PAIRS]:
        panel = _panel(pair)
        size += len(panel)
        if options and size > OCTETS:
            break
        options.append((f"{text(pair.cases.op, 60)}: " if several else "") + f"{text(pair.first)} and {text(pair.second)}")
        panels.append(panel)
    if not panels:
        return ""
    left = len(known) - len(panels)
    note = "Each cell counts the failing among the judged cases, whatever the other axes are; it leads to those cases in the table below."
    body = picker("axes", "Axes", options, panels) + _legend()
    return section("heat", "Verdicts over two axes", body, note + (f" {some(left, 'less telling pair')} not shown." if left else ""))


def _panel(pair: Pair) -> str:
    """A table for each provider, or one where the provider is an axis."""
    cases = pair.cases
    every = range(len(cases.kinds))
    if "provider" in (pair.first, pair.second):
        return _table(pair, every, "")
    groups: dict[str, list[int]] = {}
    for at in every:
        groups.setdefault(str(cases.texts["provider"][at]), []).append(at)
    order = sorted(groups, key=lambda name: -sum(cases.kinds[at] in WRONG for at in groups[name]))
    left = len(order) - FEW
    more = f'<p class="note">{some(left, "more provider")}: take the provider as an axis.</p>' if left > 0 else ""
    return f'<div class="pair">{"".join(_table(pair, groups[name], name) for name in order[:FEW])}</div>{more}'


def _table(pair: Pair, members: Iterable[int], provider: str) -> str:
    cases, grid = pair.cases, {}
    for at in members:
        key = cases.texts[pair.first][at], cases.texts[pair.second][at]
        if None not in key:
            grid.setdefault(key, []).append(at)
    sides = [(axis, ordered({key[at] for key in grid})) for at, axis in enumerate((pair.first, pair.second))]
    if (len(sides[0][1]), sides[1][0] == "provider") < (len(sides[1][1]), sides[0][0] == "provider"):
        sides.reverse()
        grid = {key[::-1]: mine for key, mine in grid.items()}
    labels, notes = [], []
    for at, (axis, values) in enumerate(sides):
        grid, kept, note = _fitted(grid, at, axis, values, sides[1 - at][0])
        labels.append(kept)
        notes += [f"; {text(note)}"] if note else []
    (down, _), (across, _) = sides
    head = "".join(f'<th scope="col">{text(label, 40)}</th>' for label in labels[1])
    body = []
    for label in labels[0]:
        cells = [
            _cell(cases, grid.get((label, other), []), ((down, label), (across, other), ("provider", provider))) for other in labels[1]
        ]
        body.append(f'<tr><th scope="row">{text(label, 40)}</th>{"".join(cells)}</tr>')
    said = f"{text(down)} down, {text(across)} across"
    label = f"Verdicts of {text(provider, 80)}: {said}" if provider else f"Verdicts: {said}"
    table = (
        f'<table class="heat"><caption class="sr">{label}</caption><thead><tr><th scope="col">{text(down)}</th>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table>"
    )
    title = f"<h3>{text(provider, 80)}</h3>" if provider else ""
    return f'<div>{title}<p class="note">{said}{"".join(notes)}</p>{scrolled(table, label)}</div>'


def _fitted(grid: Grid, at: int, axis: str, values: list[str], other: str) -> tuple[Grid, list[str], str]:
    """At most `LINES` values of an axis: those that were crossed with the other one, or ranges of numbers."""
    if len(values) <= LINES:
        return grid, values, ""
    others: dict[str, set[str]] = {}
    for key in grid:
        others.setdefault(key[at], set()).add(key[1 - at])
    kept = [label for label in values if len(others[label]) > 1]
    if 2 <= len(kept) <= LINES:
        chosen = {key: mine for key, mine in grid.items() if key[at] in set(kept)}
        return chosen, kept, f"{count(len(values) - len(kept))} values of {axis} that met a single {other} are left out"
    if not all(is_number(label) for label in values):
        first = values[:LINES]
        return {key: mine for key, mine in grid.items() if key[at] in set(first)}, first, f"{len(values) - LINES} more values of {axis}"
    step = -(-len(values) // LINES)
    parts = [values[begin : begin + step] for begin in range(0, len(values), step)]
    label_of = {label: (part[0] if len(part) == 1 else f"{part[0]}..{part[-1]}") for part in parts for label in part}
    merged: Grid = {}
    for key, mine in grid.items():
        new = (label_of[key[0]], key[1]) if at == 0 else (key[0], label_of[key[1]])
        merged.setdefault(new, []).extend(mine)
    return merged, list(dict.fromkeys(label_of.values())), f"values of {axis} are put together"


def _cell(cases: Cases, mine: list[int], at: tuple[tuple[str, str], ...]) -> str:
    if not mine:
        return "<td></td>"
    kinds = Counter(cases.kinds[index] for index in mine)
    wrong = kinds["fail"] + kinds["broken"]
    judged = wrong + kinds["pass"]
    if not judged:
        level, shown, said = "unjudged", SYMBOLS["unjudged"], f"{some(len(mine), 'case')} not judged"
    elif not wrong:
        level, shown, said = "pass", f"{SYMBOLS['pass']} {judged}", "the one passes" if judged == 1 else f"all {judged} pass"
    else:
        worst = "broken" if kinds["broken"] > kinds["fail"] else "fail"
        level = "broken" if worst == "broken" else ("fail-tint", "fail-more", "fail-most", "fail")[min(int(3 * wrong / judged), 3)]
        shown = f"{SYMBOLS[worst]} {wrong}" + (f"/{judged}" if wrong < judged else "")
        names = Counter(cases.verdicts[index] for index in mine if cases.kinds[index] in WRONG)
        said = f"{wrong} of {judged} {'fails' if wrong == 1 else 'fail'}: {', '.join(name for name, _ in names.most_common(3))}"
    query = text(" ".join(f"{axis}={held}".replace(" ", "_") for axis, held in at if held), 400)
    told = text(said)
    link = f'<a href="#cases" data-find="{query}" title="{told}"><span class="sr">{told}: </span>{shown}</a>'
    return f'<td class="{level}">{link}</td>'


def _legend() -> str:
    scale = "".join(f'<span class="{level}"></span>' for level in ("fail-tint", "fail-more", "fail-most", "fail"))
    kinds = {name: MEANING[name] for name in KINDS}
    kinds["pass"] = "all pass"
    kinds["fail"] = f'some to all fail <span class="scale" aria-hidden="true">{scale}</span>'
    items = "".join(f'<li class="{name}"><span aria-hidden="true">{SYMBOLS[name]}</span> {said}</li>' for name, said in kinds.items())
    return f'<ul class="legend">{items}</ul>'
