"""The pool of physical pages as a grid: which are wrong, which the case uses."""

from __future__ import annotations

from typing import Any

from kvcheck.report._html import svg
from kvcheck.report._html.bars import Bars
from kvcheck.report._html.palette import sentinel
from kvcheck.report._html.spread import Pages, Run, told
from kvcheck.report.words.numbers import count, some

LINES = 16
"""Lines of the grid."""

CELL = 11
"""Height of a line in the page's pixels."""


def drawn(pages: Pages) -> Any:
    """The figure: pages line by line, as text is read."""
    width = _width(pages)
    lines = -(-pages.pool // width)
    height = CELL * lines + 52
    figure = svg.figure(height)
    left = 16 + 6.4 * len(str(width * (lines - 1)))
    axes = figure.add_axes((left / svg.WIDTH, 40 / height, 1 - (left + 14) / svg.WIDTH, (height - 48) / height))
    whole = Run(0, pages.pool - 1, pages.pool)
    bars = Bars(axes)
    for role, runs in (("faint", [whole]), ("used", pages.used), ("fail", pages.wrong)):
        for run in runs:
            _fill(bars, width, run, role)
    bars.draw()
    if width <= 64:
        axes.vlines(range(1, width), 0, lines, color=sentinel("card"), linewidth=0.8)
    axes.hlines(range(lines + 1), 0, width, color=sentinel("card"), linewidth=1.4)
    axes.set_xlim(0, width)
    axes.set_ylim(lines, 0)
    step = -(-lines // 6)
    axes.set_yticks([line + 0.5 for line in range(0, lines, step)], [str(line * width) for line in range(0, lines, step)])
    ticks = sorted({0, width // 2, width - 1}) if width > 1 else [0]
    axes.set_xticks([tick + 0.5 for tick in ticks], [f"+{tick}" for tick in ticks])
    for side in axes.spines.values():
        side.set_visible(False)
    axes.tick_params(length=0, labelcolor=sentinel("soft"), labelsize=10)
    axes.set_xlabel(f"page id (a line: {width} pages of {some(pages.size, 'token')})", color=sentinel("soft"))
    return figure


def said(pages: Pages) -> str:
    """The picture in words."""
    used = sum(run.held for run in pages.used)
    whole = f"{count(used)} of the pool's {some(pages.pool, 'page')} are used"
    if not pages.wrong:
        return f"No page that the case uses is wrong; {whole}."
    wrong = sum(run.held for run in pages.wrong)
    return f"{some(wrong, 'page')} with something wrong: {told(pages.wrong)}; {whole}."


def _width(pages: Pages) -> int:
    """Pages a line: a power of two that needs at most `LINES` lines."""
    width = min(8, pages.pool)
    while width * LINES < pages.pool:
        width *= 2
    return width


def _fill(bars: Bars, width: int, run: Run, role: str) -> None:
    """A run of pages, which may go over several lines."""
    first, last = divmod(run.first, width), divmod(run.last, width)
    parts = [(first[0], first[0], first[1], last[1] if first[0] == last[0] else width - 1)]
    if last[0] > first[0]:
        parts.append((last[0], last[0], 0, last[1]))
    if last[0] > first[0] + 1:
        parts.append((first[0] + 1, last[0] - 1, 0, width - 1))
    for top, bottom, begin, end in parts:
        thin = max(width / 320 - (end + 1 - begin), 0) / 2  # a page among thousands stays visible
        bars.add(role, begin - thin, end + 1 + thin, top, bottom + 1, run.share)
