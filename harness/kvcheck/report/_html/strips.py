"""The wrong elements of an output as strips: a line for rows that are wrong alike, positions from left to right."""

from __future__ import annotations

from typing import Any

from kvcheck.report._html import svg
from kvcheck.report._html.bars import Bars
from kvcheck.report._html.palette import sentinel
from kvcheck.report._html.spread import Line, Spread, told
from kvcheck.report.words.numbers import count

DRAWN = 16
"""Lines of a picture."""

BOUNDARIES = 72
"""Up to so many boundaries of pages are drawn, one by one."""


def drawn(spread: Spread) -> Any:
    """The figure."""
    lines = spread.lines[:DRAWN]
    from matplotlib.ticker import MaxNLocator

    step = 26 if len(lines) <= 6 else 18
    height = step * len(lines) + 54
    figure = svg.figure(height)
    left = 16 + 6.2 * max(len(_label(spread, line)) for line in lines)
    axes = figure.add_axes((left / svg.WIDTH, 40 / height, 1 - (left + 14) / svg.WIDTH, (height - 50) / height))
    end, bars = _end(spread), Bars(axes)
    for at, line in enumerate(lines):
        for run in line.inside if line.inside is not None else []:
            bars.add("used", run.first, min(run.last, end) + 1, at - 0.36, at + 0.36)
        for run in line.wrong:
            if run.first <= end:
                bars.add("fail", run.first, min(run.last, end) + 1, at - 0.36, at + 0.36, run.share)
    bars.draw(outlined="fail")
    if spread.pages and spread.pages.size > 1 and end / spread.pages.size <= BOUNDARIES:
        for boundary in range(0, end + 2, spread.pages.size):
            axes.axvline(boundary, color=sentinel("ink"), linewidth=0.6, alpha=0.45)
    axes.set_xlim(-0.004 * end, (end + 1) * 1.012)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.set_yticks(range(len(lines)), [_label(spread, line) for line in lines])
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(sentinel("line"))
    axes.tick_params(axis="y", length=0, labelcolor=sentinel("ink"), labelsize=10)
    axes.tick_params(axis="x", color=sentinel("line"), labelcolor=sentinel("soft"), labelsize=10)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    size = spread.pages and spread.pages.size
    pages = f" (lines: pages of {size})" if size and size > 1 and end / size <= BOUNDARIES else ""
    axes.set_xlabel(spread.across + pages, color=sentinel("soft"))
    return figure


def said(spread: Spread) -> str:
    """The picture in words."""
    parts = []
    for line in spread.lines[:4]:
        where = _label(spread, line)
        parts.append(f"{where}: {told(line.wrong)}" if where else f"{spread.across}s {told(line.wrong)}")
    left = len(spread.lines) - 4
    text = "; ".join(parts) + (f"; and {left} more groups of rows" if left > 0 else "")
    past = sum(1 for line in spread.lines if line.inside is not None and _past(line))
    if past == len(spread.lines):
        return text + ". All of it lies past the end of its row, where nothing may stand."
    return text + "."


def _past(line: Line) -> bool:
    """Whether everything wrong lies beyond what is promised."""
    end = max((run.last for run in line.inside or []), default=-1)
    return all(run.first > end for run in line.wrong)


def _label(spread: Spread, line: Line) -> str:
    if not spread.down:
        return ""
    first, last = line.rows.first, line.rows.last
    name = spread.down if len(spread.down) <= 10 else "row"
    return f"{name} {first}" if first == last else f"{name}s {count(first)}–{count(last)}"


def _end(spread: Spread) -> int:
    """The last position worth drawing: of what is promised or wrong, not of an empty buffer behind it."""
    last = [run.last for line in spread.lines for run in [*line.wrong, *(line.inside or [])]]
    return max(min(max(last), spread.columns - 1), 7)
