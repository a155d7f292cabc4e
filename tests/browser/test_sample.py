"""The sample report of the repository: what its run renders to today, and screenshots of it.

After a change that is meant, write report.html and the screenshots anew: KVCHECK_WRITE_SAMPLE=1 pytest tests/browser/test_sample.py
"""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pytest
from PIL import Image

from kvcheck.flow.render import read, render

pytestmark = [pytest.mark.xdist_group("browser"), pytest.mark.timeout(300)]

SAMPLE = Path(__file__).parents[2] / "reports/sample"
SHOTS = {"report-light.png": (1180, "light", 3400), "report-dark.png": (1180, "dark", 3400), "report-phone.png": (390, "light", 6000)}
COLOURS = 112
MOST = 200_000
WRITE = bool(os.environ.get("KVCHECK_WRITE_SAMPLE"))


def without_pictures(page: str) -> str:
    """A page as it is with any version of matplotlib."""
    return re.sub(r"<svg\b.*?</svg>", "<svg></svg>", page, flags=re.S)


def test_the_sample_is_what_its_run_renders_to():
    page = render(read(SAMPLE), "html")
    if WRITE:
        (SAMPLE / "report.html").write_text(page, encoding="utf-8")
    assert without_pictures(page) == without_pictures((SAMPLE / "report.html").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SHOTS)
def test_its_screenshots_are_of_it(browser, name):
    width, scheme, height = SHOTS[name]
    if WRITE:
        browser.open(SAMPLE / "report.html", width, 900, scheme)
        made = Image.open(io.BytesIO(browser.screenshot(height))).convert("RGB")
        made.quantize(COLOURS, dither=Image.Dither.NONE).save(SAMPLE / name, optimize=True)
    shot = Image.open(SAMPLE / name)
    assert shot.size == (width, height) and (SAMPLE / name).stat().st_size < MOST
    levels = shot.convert("L").histogram()
    ground = sum(levels[200:] if scheme == "light" else levels[:60]) / sum(levels)
    assert ground > 0.6 and sum(count > 0 for count in levels) > 20
