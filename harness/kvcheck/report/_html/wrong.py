"""What is wrong in a few failing cases: the error text, and a picture of wrong rows, positions and pages of the pool."""

from __future__ import annotations

from typing import Any

from kvcheck.report._html import pages, strips, svg
from kvcheck.report._html.markup import badge, block, picker, section, text
from kvcheck.report._html.spread import Spread, read
from kvcheck.report.words import choose, error_text, known, rows
from kvcheck.report.words.numbers import count, some

Row = dict[str, Any]

SHOWN = 8
"""Failing cases to choose from."""


def wrong(run: dict[str, Any]) -> str:
    """The section; empty where nothing fails."""
    failing = [row for row in run["cases"] if rows.is_failure(row)]
    if not failing:
        return ""
    chosen = _chosen(run, failing)
    kinds = len({rows.identity(row) for row in failing})
    note = f"{some(len(failing), 'case')} {'fails' if len(failing) == 1 else 'fail'} in {some(kinds, 'way')}"
    turn = ", each way in turn" if kinds > 1 else ""
    note += f"; {count(len(chosen))} of them{turn}:" if len(chosen) < len(failing) else ":"
    options = [f"{text(rows.verdict(row), 40)} {text(row.get('provider'), 60)}: {text(_short(row), 200)}" for row in chosen]
    body = picker("case", "Case", options, [_article(row, f"w{at}") for at, row in enumerate(chosen)])
    return section("wrong", "What is wrong", body, note)


def _chosen(run: dict[str, Any], failing: list[Row]) -> list[Row]:
    """The case that every report shows in full, then each kind in turn: of one kind those that lie far apart, with pictures first."""
    kinds: dict[tuple[str, ...], list[int]] = {}
    for index in sorted(range(len(failing)), key=lambda index: (known.state(failing[index]) == "known", index)):
        kinds.setdefault(rows.identity(failing[index]), []).append(index)
    groups = []
    for mine in kinds.values():
        drawn = [index for index in mine if isinstance(failing[index].get("wrong"), dict)] or mine
        few = min(SHOWN, len(drawn))
        spaced = [drawn[at * (len(drawn) - 1) // max(few - 1, 1)] for at in range(few)]
        groups.append(spaced[few // 2 :] + spaced[: few // 2])
    head = choose.first(run)
    others = [failing[index] for index in choose.in_turn(groups, SHOWN)]
    return [row for row in (head, *(row for row in others if row is not head)) if row is not None][:SHOWN]


def _short(row: Row) -> str:
    name, axes = rows.axes(row)
    return ", ".join(f"{axis} {value}" for axis, value in axes.items()) or name


def _article(row: Row, name: str) -> str:
    head, *rest = error_text(row).split("\n")
    again = rest.pop().partition("again: ")[2] if rest else ""
    of, _, message = head.partition(": ")
    body = [
        f"<h3>{badge(rows.verdict(row))} {_known(row)}{text(message, 500)}</h3>",
        f'<pre class="said">{block("".join(f"{line.strip()}{chr(10)}" for line in rest).strip(), 4000)}</pre>',
    ]
    spread = read(row.get("wrong"))
    body.append(_picture(row, spread, name) if spread else '<p class="note">No picture: no element of an output was compared here.</p>')
    command = f'<div class="command"><pre id="{name}-again" tabindex="0" aria-label="Command">{block(again, 2000)}</pre>'
    body.append(f'{command}<button type="button" data-copy="{name}-again">Copy</button></div>')
    return f'<article aria-label="{text(of)}, {text(_short(row))}">{"".join(body)}</article>'


def _known(row: Row) -> str:
    return f'<span class="soft">({text(known.tag(row), 60)})</span> ' if known.tag(row) else ""


def _picture(row: Row, spread: Spread, name: str) -> str:
    title = f"Wrong {spread.of} of {row.get('provider')}"
    right = [("used", "promised, and right")] if any(line.inside for line in spread.lines) else []
    figures = [(strips.drawn(spread), "a", f"Which {spread.of} are wrong", strips.said(spread), right)]
    if spread.pages:
        right = [("used", "used by the case"), ("faint", "not used")]
        figures.append((pages.drawn(spread.pages), "b", "Which pages of the pool", pages.said(spread.pages), right))
    made = []
    for figure, part, head, said, right in figures:
        picture = svg.inline(figure, f"{name}{part}", f"{title}: {head}", said)
        legend = "".join(f'<li class="{role}"><span aria-hidden="true">■</span> {of}</li>' for role, of in (("fail", "wrong"), *right))
        caption = f"<figcaption><h4>{text(head)}</h4><p>{text(said, 600)}</p></figcaption>"
        made.append(f'<figure>{caption}{picture}<ul class="legend">{legend}</ul></figure>')
    more = f'<p class="note">{some(spread.more, "more wrong row")} not kept in run.json.</p>' if spread.more else ""
    return f'<div class="pair">{"".join(made)}</div>{more}'
