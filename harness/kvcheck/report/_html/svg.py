"""A matplotlib figure as SVG inside the page: text stays text, colours are the page's, and the same figure is the same bytes."""

from __future__ import annotations

import html
import io
import re
from typing import Any
from xml.etree import ElementTree

from kvcheck.report._html.palette import SENTINELS

WIDTH = 380
"""Width of a figure in the page's pixels where it is shown at its own size: what a phone has."""

KEPT = {"id", "d", "x", "y", "transform", "clip-path", "viewBox", "points", "width", "height"}
FROM_STYLE = {"stroke-width", "stroke-dasharray", "stroke-dashoffset", "opacity", "fill-opacity", "stroke-opacity", "text-anchor"}
NUMBER = re.compile(r"-?\d+\.\d+")
SPACE = re.compile(r"\s+")


def settings() -> Any:
    """A context in which matplotlib draws as the page needs it, whatever the user's own settings are."""
    import matplotlib

    base = {key: value for key, value in matplotlib.rcParamsDefault.items() if "backend" not in key}
    own = {
        "svg.fonttype": "none", "svg.hashsalt": "kvcheck", "font.family": ["DejaVu Sans"], "font.size": 11, "axes.linewidth": 0.8,
        "path.simplify": False, "axes.unicode_minus": False, "text.parse_math": False,
    }  # fmt: skip
    return matplotlib.rc_context({**base, **own})


def figure(height: float) -> Any:
    """An empty figure, `WIDTH` wide.

    Args:
        height: in the same pixels.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    made = Figure(figsize=(WIDTH / 72, height / 72))
    FigureCanvasSVG(made)
    return made


def inline(drawn: Any, name: str, title: str, description: str) -> str:
    """The figure as an `<svg>` element.

    Args:
        drawn: the figure, made under `settings` as this call is; its colours are `palette.sentinel`s.
        name: begins the ids, unique in the page.
        title: what it is, for screen readers.
        description: what it shows.
    """
    out = io.BytesIO()
    drawn.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    root = ElementTree.fromstring(out.getvalue())
    named = _Names(name)
    content = "".join(_element(child, named) for child in root)
    size = SPACE.sub(" ", root.get("viewBox", ""))
    label = f"<title id='{name}-t'>{html.escape(title)}</title><desc id='{name}-d'>{html.escape(description)}</desc>"
    return f'<svg role="img" viewBox="{size}" aria-labelledby="{name}-t" aria-describedby="{name}-d">{label}{content}</svg>'


class _Names:
    """Short ids instead of matplotlib's, which repeat from figure to figure."""

    def __init__(self, prefix: str):
        self.prefix, self.known = prefix, {}

    def __getitem__(self, name: str) -> str:
        return self.known.setdefault(name, f"{self.prefix}-{len(self.known)}")


def _element(element: Any, named: _Names) -> str:
    tag = element.tag.rpartition("}")[2]
    if tag in ("metadata", "style"):
        return ""
    inner = "".join(_element(child, named) for child in element)
    written = inner + html.escape((element.text or "").strip(), quote=False)
    if tag == "defs" and not inner:
        return ""
    attributes = _attributes(element, tag, named)
    if tag == "g":  # groups that say nothing are left out
        attributes.pop("id", None)
        if not attributes:
            return inner
        if not inner:
            return ""
    shown = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return f"<{tag}{shown}>{written}</{tag}>" if written else f"<{tag}{shown}/>"


def _attributes(element: Any, tag: str, named: _Names) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in element.attrib.items():
        key = key.rpartition("}")[2]
        if key == "style":
            found.update(_styled(value))
        elif key == "href":
            found["href"] = "#" + named[value.lstrip("#")]
        elif key == "clip-path":
            found[key] = f"url(#{named[value[5:-1]]})"
        elif key == "id":
            if tag in ("path", "clipPath") and re.fullmatch(r"[A-Za-z]\w{10,}", value):
                found[key] = named[value]
        elif key == "transform" and value.startswith("rotate(-0"):
            continue
        elif key in KEPT:
            found[key] = _short(value)
    return found


def _styled(style: str) -> dict[str, str]:
    """What a style says, as classes of the palette and attributes."""
    found: dict[str, str] = {}
    classes = []
    for declaration in style.split(";"):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        role = SENTINELS.get(value.lower())
        if key in ("fill", "stroke") and role:
            classes.append(f"{key[0]}-{role}")
        elif key in ("fill", "stroke") and value == "none":
            found[key] = "none"
        elif key in ("font-size", "font") and (size := re.search(r"([\d.]+)px", value)) and size[1] != "11":
            found["font-size"] = _short(size[1])
        elif key in FROM_STYLE:
            found[key] = _short(value)
    return {**({"class": " ".join(classes)} if classes else {}), **found}


def _short(value: str) -> str:
    return SPACE.sub(" ", NUMBER.sub(lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), value)).strip().replace("-0 ", "0 ")
