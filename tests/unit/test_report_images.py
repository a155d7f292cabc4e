"""A run of several images side by side, in every format that draws tables."""

from __future__ import annotations

from kvcheck.report import markdown, table
from kvcheck.report.words import images


def row(case: str, label: str | None, verdict: str, provider: str = "aiter") -> dict:
    name = f"{provider} in {label}" if label else provider
    image = {"reference": f"repo/{label}", "digest": "sha256:1", "id": "sha256:2", "label": label}
    return {
        "id": case,
        "provider": name,
        "image": image,
        "verdict": verdict,
        "params": {},
        "metrics": {},
        "case_file": "c",
        "op": "o",
        "seed": 0,
    }


def run(rows: list[dict]) -> dict:
    return {"run": {"command": "kvcheck run c", "id": "r", "started": "now"}, "environment": {}, "cases": rows, "thresholds": []}


ROWS = [
    row(case, label, verdict)
    for label, verdicts in (("n:1", ("pass", "pass")), ("n:2", ("pass", "mismatch")))
    for case, verdict in zip(("c[a=1]", "c[a=2]"), verdicts, strict=True)
]


def test_where_verdicts_differ_comes_first():
    heads, lines, note = images.columns(ROWS)
    assert heads == ["case", "n:1", "n:2"] and note == ""
    assert lines == [["c[a=2]", "pass", "mismatch"], ["c[a=1]", "pass", "pass"]]
    assert images.plain_provider(ROWS[0]) == "aiter" and images.label(ROWS[3]) == "n:2"


def test_cases_that_an_image_has_not_and_providers():
    rows = [*ROWS[:3], row("c[a=1]", "n:1", "pass", "triton")]
    _, lines, _ = images.columns(rows)
    assert ["aiter: c[a=2]", "pass", "-"] in lines and ["triton: c[a=1]", "pass", "-"] in lines


def test_many_cases_are_counted():
    rows = [row(f"c[a={n}]", label, "pass") for label in ("n:1", "n:2") for n in range(30)]
    _, lines, note = images.columns(rows)
    assert len(lines) == images.MOST and note == "10 more cases not shown here; in 30 of 30 every image has the same verdict."


def test_one_place_has_no_columns():
    assert images.columns([row("c", None, "pass")]) is None and images.columns([row("c", "n:1", "pass")]) is None
    assert images.columns([{"id": "c", "provider": "aiter", "verdict": "pass"}]) is None


def test_formats_draw_it():
    plain = [line.split() for line in table.render(run(ROWS), terminal=False).splitlines()]
    assert ["case", "n:1", "n:2"] in plain and ["c[a=2]", "pass", "mismatch"] in plain
    drawn = table.render(run(ROWS), terminal=True, width=100, colour=False)
    assert "verdicts by image" in drawn and any(line.split() == ["c[a=2]", "pass", "mismatch"] for line in drawn.splitlines())
    assert "### By image" in markdown.render(run(ROWS)) and "| `c[a=2]` | `pass` | `mismatch` |" in markdown.render(run(ROWS))
