"""report.html: one file that needs no network, with pictures of what fails, for light and dark, a phone and a screen reader.

The pictures are drawn by matplotlib as SVG, which makes them text that is read, searched and coloured like the rest of the page.
"""

from __future__ import annotations

from typing import Any


def render(run: dict[str, Any]) -> str:
    """The run as an HTML document; the same run gives the same bytes.

    Args:
        run: run.json; all text in it is taken as hostile.
    """
    from kvcheck.report._html.page import page

    return page(run)
