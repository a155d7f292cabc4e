"""The golden run with places that are wrong, its page, and a reader of pages; what tests of report.html share."""

from __future__ import annotations

import copy
import json
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path

from kvcheck.report import html

GOLDEN = Path(__file__).parent / "golden"
VOID = {"meta", "link", "input", "br", "hr", "img"}


def sample() -> dict:
    """The golden run, its failing cases with the places that are wrong."""
    run = json.loads((GOLDEN / "run.json").read_text())
    place = {
        "output": "logits", "axes": ["row", "position"], "shape": [8, 4096],
        "rows": [{"rows": "0-2", "wrong": "64-127", "inside": "0-2047"}, {"rows": "5", "wrong": "3 70-90/5", "inside": "0-99"}],
        "more_rows": 2, "block_size": 64, "pool": 70, "blocks": "3 9-11", "used": "0-40/20 50",
    }  # fmt: skip
    for row in run["cases"]:
        if row["verdict"] in ("mismatch", "nonfinite"):
            row["wrong"] = copy.deepcopy(place)
    return run


RUN = sample()


class Tree(HTMLParser):
    """Elements as they open, and whether they close in order."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        assert len({name for name, _ in attributes}) == len(attributes), (tag, attributes)
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> while {self.open[-3:]} are open, line {self.getpos()}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "script"):
            self.text.append(data)

    def all(self, tag):
        """Attributes of every element of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]


@lru_cache
def golden_page() -> str:
    """The golden run as a page."""
    return html.render(RUN)


@lru_cache
def golden_tree() -> Tree:
    """What is in it."""
    return Tree(golden_page())
