"""Verdict, set match and ratio to the bound against a swept axis: one figure a series, with its numbers as a table beside it."""

from __future__ import annotations

import math
from typing import Any

from kvcheck.report._html import svg
from kvcheck.report._html.markup import badge, prose, quote, scrolled, table, text
from kvcheck.report._html.palette import MEANING, SYMBOLS, sentinel
from kvcheck.report._html.swept import Point, Series, series
from kvcheck.report.words import threshold_sentence
from kvcheck.report.words.numbers import count, number, share, some

MARKERS = {"pass": ("o", 4.6), "fail": ("x", 5.6), "broken": ("P", 6.2), "unjudged": ("_", 6.0)}
NAMED_FLIPS = 3
"""Flips whose place is written into a figure."""

LISTED = 150
"""Points that a table lists."""

DRAWN = 300
"""Points of one kind that are drawn one by one."""

TALL = {"verdict": 34, "match": 130, "ratio": 130}


def charts(run: dict[str, Any]) -> str:
    """Figures of a run; empty where no axis of numbers was swept."""
    shown, left = series(run)
    drawn = [_figure(each, f"c{at}") for at, each in enumerate(shown)]
    if not drawn:
        return ""
    more = f'<p class="note">{some(left, "other search", "other searches")}: in run.json.</p>' if left else ""
    return f'<div class="pair">{"".join(drawn)}</div>{more}'


def _figure(of: Series, name: str) -> str:
    title = f"{of.provider} along {of.axis}"
    said = prose(threshold_sentence(of.threshold, quote)) if of.threshold else f"Every case of the sweep; {text(of.axis)} has most values."
    picture = svg.inline(_drawn(of), name, title, _description(of))
    return (
        f"<figure><figcaption><h3>{text(of.provider)} <span class=soft>along</span> {text(of.axis)}</h3><p>{said}</p></figcaption>"
        f"{picture}{_legend(of)}{_numbers(of)}</figure>"
    )


def _drawn(of: Series) -> Any:
    from matplotlib.ticker import FixedLocator, NullLocator

    panels = [name for name in TALL if name == "verdict" or any(getattr(point, name) is not None for point in of.points)]
    height = sum(TALL[name] for name in panels) + 22 * (len(panels) - 1) + 62
    figure = svg.figure(height)
    ratios = {"height_ratios": [TALL[name] for name in panels], "hspace": 0.3 if len(panels) < 3 else 0.28}
    box = dict(left=50 / svg.WIDTH, right=1 - 12 / svg.WIDTH, top=1 - 20 / height, bottom=40 / height)
    made = figure.subplots(len(panels), 1, sharex=True, squeeze=False, gridspec_kw={**ratios, **box})[:, 0]
    for axes, panel in zip(made, panels, strict=True):
        _plain(axes)
        {"verdict": _verdicts, "match": _match, "ratio": _ratio}[panel](axes, of)
        for flip in of.flips:
            edge = 1.1 if len(of.flips) < 5 else 0.7
            axes.axvspan(*flip, facecolor=sentinel("link"), edgecolor=sentinel("link"), linewidth=edge, alpha=0.45, zorder=0.5)
    _name_flips(made[0], of)
    low, high = of.points[0].at, of.points[-1].at
    wide = low >= 0 and high > 24 * max(low, 1)
    if wide:
        made[-1].set_xscale("symlog" if low == 0 else "log", base=2)
    ticks = _ticks(low, high, wide)
    made[-1].xaxis.set_major_locator(FixedLocator(ticks))
    made[-1].xaxis.set_minor_locator(NullLocator())
    made[-1].set_xticklabels([_thousands(tick) for tick in ticks])
    pad = 1.15 if wide else 0.03 * (high - low) or 1
    made[-1].set_xlim(*((max(low, 1) / pad if low else 0, high * pad) if wide else (low - pad, high + pad)))
    made[-1].set_xlabel(of.axis, color=sentinel("soft"))
    return figure


def _plain(axes: Any) -> None:
    """Little ink: no frame, thin lines, soft labels."""
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(sentinel("line"))
    axes.tick_params(colors=sentinel("line"), labelcolor=sentinel("soft"), length=3, which="both", labelsize=10)
    axes.grid(axis="y", color=sentinel("faint"), linewidth=0.8)
    axes.set_axisbelow(True)


def _verdicts(axes: Any, of: Series) -> None:
    """Where cases pass and where they fail, two lines of marks."""
    lines = {"pass": 1, "fail": 0, "broken": 0}
    for kind, points in _by_kind([point for point in of.points if point.kind in lines]):
        _marks(axes, kind, [point.at for point in points], [lines[kind]] * len(points))
    axes.set_ylim(-0.6, 1.6)
    axes.set_yticks([0, 1], ["fails", "passes"])
    axes.tick_params(axis="x", length=0)
    axes.spines["bottom"].set_visible(False)


def _match(axes: Any, of: Series) -> None:
    """Set match beside the level that a random selection reaches."""
    measured = [point for point in of.points if point.match is not None]
    chances: dict[int, list[float]] = {}
    for point in measured:
        if point.chance is not None:
            chances.setdefault(point.at, []).append(point.chance)
    if of.trivial_below:
        axes.axvspan(min(of.points[0].at, of.trivial_below), of.trivial_below, facecolor=sentinel("faint"), linewidth=0, zorder=0.4)
        axes.annotate(
            "cannot fail here", (of.points[0].at, 0.5), xytext=(6, 0), textcoords="offset points", va="center", fontsize=9.5,
            color=sentinel("soft"), annotation_clip=False,
        )  # fmt: skip
    if chances:
        line = sorted((at, sum(level) / len(level)) for at, level in chances.items())
        axes.plot(*zip(*line, strict=True), color=sentinel("soft"), linewidth=1.4, dashes=(4, 2.5), marker="." if len(line) == 1 else "")
    for kind, points in _by_kind(measured):
        _marks(axes, kind, [point.at for point in points], [point.match for point in points])
    axes.set_ylim(-0.04, 1.08)
    axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    _says(axes, "set match of the top-k" + (" (dashed: chance)" if chances else ""))


def _ratio(axes: Any, of: Series) -> None:
    """The worst ratio of difference to bound: above 1 is wrong."""
    measured = [point for point in of.points if point.ratio is not None]
    above = [point.ratio for point in measured if point.ratio > 0]
    floor = min(above, default=1e-3) / 3
    for kind, points in _by_kind(measured):
        _marks(axes, kind, [point.at for point in points], [max(point.ratio, floor) for point in points])
    axes.set_yscale("log")
    axes.set_ylim(floor / 2, max(max(above, default=1), 1) * 6)
    axes.axhline(1, color=sentinel("fail"), linewidth=1.1)
    ticks = [10.0**power for power in range(-12, 13) if floor / 2 <= 10.0**power <= max(max(above, default=1), 1) * 6]
    ticks = [tick for tick in ticks if tick == 1 or len(ticks) < 7 or round(math.log10(tick)) % 2 == 0]
    axes.set_yticks(ticks, [number(tick, 1) if tick != 1 else "1" for tick in ticks])
    axes.minorticks_off()
    _says(axes, "worst ratio to the bound (line: the bound)")


def _says(axes: Any, words: str) -> None:
    """What a panel shows, above it."""
    axes.annotate(words, (0, 1), xycoords="axes fraction", xytext=(0, 4), textcoords="offset points", color=sentinel("ink"), fontsize=10.5)


def _marks(axes: Any, kind: str, x: list[int], y: list[float]) -> None:
    if len(x) > DRAWN:  # marks that would lie on each other are one
        spots = {(f"{across:.2g}", f"{up:.2g}"): (across, up) for across, up in zip(x, y, strict=True)}
        x, y = (list(side) for side in zip(*spots.values(), strict=True))
    marker, size = MARKERS[kind]
    hollow = {"markerfacecolor": "none", "markeredgewidth": 1.5} if kind == "pass" else {"markeredgewidth": 1.8}
    axes.plot(
        x, y, marker=marker, markersize=size, linestyle="", color=sentinel(kind), markeredgecolor=sentinel(kind), clip_on=False, **hollow
    )


def _name_flips(axes: Any, of: Series) -> None:
    """The first flips by their two neighbours, over the uppermost panel."""
    named: list[tuple[int, int]] = []
    for flip in of.flips:
        if not named or flip[0] > named[-1][1] * 2.4:
            named.append(flip)
    end = of.points[-1].at
    for low, high in named[:NAMED_FLIPS] if len(of.flips) <= 4 else named[:1]:
        axes.annotate(
            f"{low} | {high}", ((low * high) ** 0.5 if low > 0 else high, 1.6), xytext=(0, 3), textcoords="offset points",
            ha="right" if high * 2.5 > end else "center", color=sentinel("link"), fontsize=10, annotation_clip=False,
        )  # fmt: skip


def _by_kind(points: list[Point]) -> list[tuple[str, list[Point]]]:
    return [(kind, mine) for kind in MARKERS if (mine := [point for point in points if point.kind == kind])]


def _ticks(low: int, high: int, wide: bool) -> list[int]:
    """A few round values: powers of two where the axis is logarithmic."""
    if not wide:
        step = max(round((high - low) / 4), 1)
        return list(range(low, high + 1, step))
    powers = [1 << bit for bit in range(40) if max(low, 1) / 1.2 <= 1 << bit <= high * 1.2]
    step = -(-len(powers) // 6)
    return ([0] if low == 0 else []) + powers[:: max(step, 1)]


def _thousands(value: int) -> str:
    return f"{value >> 10}k" if value >= 8192 and not value % 1024 else str(value)


def _description(of: Series) -> str:
    """What the figure shows, for those who do not see it."""
    kinds = ", ".join(f"{count(len(points))} {MEANING[kind]}" for kind, points in _by_kind(of.points))
    parts = [f"{some(len(of.points), 'case')} between {of.points[0].at} and {of.points[-1].at}: {kinds}."]
    if of.flips:
        parts.append(
            "The verdict flips between "
            + ", ".join(f"{low} and {high}" for low, high in of.flips[:6])
            + ("..." if len(of.flips) > 6 else ".")
        )
    else:
        parts.append("No flip was found." if of.threshold else "")
    ratios = [point.ratio for point in of.points if point.ratio is not None]
    if ratios:
        parts.append(f"Ratio to the bound from {number(min(ratios), 2)} to {number(max(ratios), 2)}; 1 is the bound.")
    matches = [point.match for point in of.points if point.match is not None]
    if matches:
        parts.append(f"Set match from {share(min(matches))} to {share(max(matches))}.")
    return " ".join(part for part in parts if part)


def _legend(of: Series) -> str:
    kinds = [f'<li class="{kind}"><span aria-hidden="true">{_sign(kind)}</span> {MEANING[kind]}</li>' for kind, _ in _by_kind(of.points)]
    flips = '<li class="flip"><span aria-hidden="true">│</span> the verdict flips</li>' if of.flips else ""
    return f'<ul class="legend">{"".join(kinds)}{flips}</ul>'


def _sign(kind: str) -> str:
    return "○" if kind == "pass" else SYMBOLS[kind]


def _numbers(of: Series) -> str:
    """The points as a table: near flips first where not all fit."""
    shown = of.points
    if len(shown) > LISTED:
        ends = {at for flip in of.flips for at in flip}
        order = sorted(range(len(shown)), key=lambda at: (shown[at].at not in ends, shown[at].kind != "fail", at))
        shown = [of.points[at] for at in sorted(order[:LISTED])]
    body = [
        [str(point.at), badge(point.verdict), _cell(point.ratio, 3), "-" if point.match is None else share(point.match), _chance(point)]
        for point in shown
    ]
    caption = f"{text(of.axis)} of {text(of.provider)}" + (
        f", {len(shown)} of {count(len(of.points))}" if len(shown) < len(of.points) else ""
    )
    numbers = table([text(of.axis), "verdict", "ratio to bound", "set match", "chance"], body, caption)
    return f"<details><summary>The numbers</summary>{scrolled(numbers, f'Numbers of {text(of.provider)} along {text(of.axis)}')}</details>"


def _cell(value: float | None, digits: int) -> str:
    return number(value, digits)


def _chance(point: Point) -> str:
    return "-" if point.chance is None else share(point.chance)
