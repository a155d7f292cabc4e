"""Colours by what they mean, for light and for dark; the only place where a colour is written down."""

from __future__ import annotations

LIGHT = {
    "page": "#faf9f6", "card": "#ffffff", "ink": "#1c2530", "soft": "#55606f", "line": "#d9d6ce", "faint": "#efede7", "link": "#1b5a93",
    "pass": "#12647f", "pass-tint": "#d8eaf0", "fail": "#ad3a12", "fail-tint": "#fbe6dc", "fail-more": "#f4c3ab", "fail-most": "#e88f69",
    "broken": "#4d1560", "broken-tint": "#efe1f4", "unjudged": "#5c6572", "unjudged-tint": "#e9ebee", "used": "#a9cbd8", "on": "#ffffff",
}  # fmt: skip

DARK = {
    "page": "#12161c", "card": "#1a2028", "ink": "#e6eaef", "soft": "#a2adba", "line": "#38424e", "faint": "#232b35", "link": "#8cc0ee",
    "pass": "#69bdd8", "pass-tint": "#173743", "fail": "#f58b62", "fail-tint": "#45241a", "fail-more": "#6b311d", "fail-most": "#8f3d1f",
    "broken": "#f1d7fa", "broken-tint": "#3b2247", "unjudged": "#9aa6b4", "unjudged-tint": "#29313b", "used": "#2e5a6b", "on": "#12161c",
}  # fmt: skip

KINDS = ("pass", "fail", "broken", "unjudged")
"""What a verdict amounts to: right, wrong output, no output (crash, timeout), no verdict on the kernel."""

SYMBOLS = {"pass": "✓", "fail": "×", "broken": "!", "unjudged": "–"}
"""Colour alone says nothing to many readers."""

MEANING = {"pass": "passes", "fail": "wrong output", "broken": "crash or timeout", "unjudged": "not judged"}

READ_ON = (
    *((front, back) for front in ("ink", "soft", "link", "pass", "fail", "broken", "unjudged") for back in ("page", "card")),
    *(("ink", back) for back in ("faint", "pass-tint", "fail-tint", "fail-more", "fail-most", "broken-tint", "unjudged-tint")),
    ("soft", "faint"),
    *(("on", back) for back in ("pass", "fail", "broken", "unjudged", "link")),
    *((kind, f"{kind}-tint") for kind in KINDS),
)  # fmt: skip
"""Text and the ground that it is read on: WCAG AA asks 4.5 to 1 of each."""

SEEN_ON = (*((mark, "card") for mark in KINDS), ("link", "page"), ("link", "card"), ("fail", "used"))
"""Marks in pictures and outlines, and their ground: 3 to 1."""


def sentinel(role: str) -> str:
    """The colour that stands for a role in a figure until it is put into the page."""
    return f"#0f{list(LIGHT).index(role):02x}f0"


SENTINELS = {sentinel(role): role for role in LIGHT}


def style() -> str:
    """CSS: the roles as variables, and for each a class that fills and one that draws a line."""
    light, dark = ("".join(f"--{role}:{colour};" for role, colour in palette.items()) for palette in (LIGHT, DARK))
    rules = [
        f":root{{color-scheme:light dark;{light}}}",
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}",
        f":root[data-theme=light]{{color-scheme:light}}:root[data-theme=dark]{{color-scheme:dark;{dark}}}",
        f"@media print{{:root:not(#_){{color-scheme:light;{light}}}}}",
    ]
    rules += [f".f-{role}{{fill:var(--{role})}}.s-{role}{{stroke:var(--{role})}}" for role in LIGHT]
    return "\n".join(rules)


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours.

    Source: WCAG 2.2, relative luminance.
    """
    light, dark = sorted((_luminance(colour) for colour in (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
