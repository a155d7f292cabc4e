"""One browser for all tests of pages, and the pages."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvcheck.report import html

from .chrome import NAMES, Browser

ROOT = Path(__file__).parents[2]
RUNS = {"golden": ROOT / "tests/unit/golden/run.json", "sample": ROOT / "reports/sample/run.json"}


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A started browser; skips where there is none."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no browser on this machine ({', '.join(NAMES)})")
    made = Browser(program, tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`page(name)`: the report of one of `RUNS` as a file."""
    folder, made = tmp_path_factory.mktemp("pages"), {}

    def render(name: str) -> Path:
        if name not in made:
            made[name] = folder / f"{name}.html"
            made[name].write_text(html.render(json.loads(RUNS[name].read_text())), encoding="utf-8")
        return made[name]

    return render
