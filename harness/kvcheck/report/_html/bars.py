"""Many rectangles as few paths: one for each colour and each density."""

from __future__ import annotations

from typing import Any

from kvcheck.report._html.palette import sentinel

DENSITIES = 4
"""Steps of opacity: a stretch that is wrong here and there is paler than one that is wrong throughout."""


class Bars:
    """Collects rectangles, then draws them, in the order in which their colours were first met.

    Args:
        axes: where they are drawn.
    """

    def __init__(self, axes: Any):
        self._axes = axes
        self._held: dict[tuple[str, float], list[tuple[float, float, float, float]]] = {}

    def add(self, role: str, left: float, right: float, top: float, bottom: float, share: float = 1.0) -> None:
        """One rectangle.

        Args:
            role: colour of the palette.
            left, right, top, bottom: its edges.
            share: how much of it is meant, above 0.
        """
        step = -(-round(share * 1000) * DENSITIES // 1000) / DENSITIES
        self._held.setdefault((role, 0.3 + 0.7 * step if share < 1 else 1.0), []).append((left, right, top, bottom))

    def draw(self, outlined: str | None = None, width: float = 1.4) -> None:
        """Draws what was added.

        Args:
            outlined: the colour whose whole rectangles have an outline: it keeps one position among thousands visible.
            width: of the outline, in the page's pixels.
        """
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        for (role, alpha), boxes in self._held.items():
            colour, thick = sentinel(role), width if role == outlined and alpha == 1 else 0
            corners = [point for a, b, c, d in boxes for point in ((a, c), (b, c), (b, d), (a, d), (a, c))]
            codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(boxes)
            edge = colour if thick else "none"
            self._axes.add_artist(PathPatch(Path(corners, codes), facecolor=colour, edgecolor=edge, linewidth=thick, alpha=alpha))
