"""Each report format against its golden file, and what holds for any run.

After a change that is meant, write the golden files anew: KVCHECK_WRITE_GOLDEN=1 pytest tests/unit/test_report_formats.py
"""

from __future__ import annotations

import copy
import csv as csv_reader
import io
import json
import math
import os
import re
import time
from pathlib import Path

import pytest

from kvcheck.agent.protocol import VERDICTS
from kvcheck.report import csv, markdown, table
from kvcheck.report import json as json_format

GOLDEN = Path(__file__).parent / "golden"
RUN = json.loads((GOLDEN / "run.json").read_text())


def many(times):
    """The run with its cases repeated under new seeds."""
    run = copy.copy(RUN)
    run["cases"] = [{**row, "seed": row["seed"] + turn} for turn in range(times) for row in RUN["cases"]]
    return run


RENDERED = {
    "run.json": lambda: json_format.render(RUN),
    "results.csv": lambda: csv.render(RUN),
    "report.md": lambda: markdown.render(RUN),
    "lines.txt": lambda: table.render(RUN, terminal=False),
    "many_lines.txt": lambda: table.render(many(4), terminal=False),
    "table_60.txt": lambda: table.render(RUN, terminal=True, width=60, colour=False),
    "table_120.txt": lambda: table.render(RUN, terminal=True, width=120, colour=False),
    "many_120.txt": lambda: table.render(many(4), terminal=True, width=120, colour=False),
    "table_160_colour.txt": lambda: table.render(RUN, terminal=True, width=160, colour=True),
}


def test_the_sample_covers_every_verdict():
    assert {row["verdict"] for row in RUN["cases"]} == set(VERDICTS)


@pytest.mark.parametrize("name", RENDERED)
def test_golden(name):
    text = RENDERED[name]()
    if os.environ.get("KVCHECK_WRITE_GOLDEN"):
        (GOLDEN / name).write_bytes(text.encode())
    assert text == (GOLDEN / name).read_bytes().decode()


@pytest.mark.parametrize("width", [24, 40, 60, 80, 100, 120, 200])
def test_tables_fit_the_width(width):
    text = table.render(many(4), terminal=True, width=width, colour=False)
    drawn = [line for line in text.split("\n") if not re.match(r"[A-Z_]+ \w+: |  (case|again:|first|\d+ of|no output|it said)", line)]
    assert max(len(line) for line in drawn) <= width


def test_commands_and_ids_are_never_cut_or_wrapped():
    failing = [row for row in RUN["cases"] if row["verdict"] == "nonfinite"]
    for text in (table.render(RUN, terminal=True, width=40, colour=False), table.render(RUN, terminal=False), markdown.render(RUN)):
        assert failing[0]["repro"] in text
        assert failing[0]["id"] in text


def test_colour_follows_the_terminal_and_no_color(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[32mpass" in table.render(RUN, terminal=True, width=120)
    assert "\x1b" not in table.render(RUN, terminal=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in table.render(RUN, terminal=True, width=120)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in table.render(RUN, terminal=True, width=120)


def test_a_pipe_gets_a_line_a_case():
    lines = table.render(RUN, terminal=False).split("\n")
    assert [line.split()[0].lower() for line in lines[: len(RUN["cases"])]] == [row["verdict"] for row in RUN["cases"]]


def test_many_cases_are_condensed_and_the_rest_is_counted():
    run = many(4)
    for text in (table.render(run, terminal=False), table.render(run, terminal=True, width=120, colour=False)):
        assert f"{len(run['cases']) - table.TELLING_ROWS} more cases not shown here" in text
        for verdict in VERDICTS:
            assert verdict in text.lower()


def test_no_set_match_without_chance_and_no_trivial_one_as_a_number():
    for text in (RENDERED["lines.txt"](), RENDERED["table_160_colour.txt"](), RENDERED["report.md"]()):
        for found in re.finditer(r"(?:set match |`)([01]\.\d{4})(.{8})", text):
            assert found[2].startswith((" (chance", ", chance"))
    run = copy.deepcopy(RUN)
    run["cases"][0]["metrics"].update(topk_set_match=1.0, topk_set_match_chance=1.0)
    assert table.render(run, terminal=False).split("\n")[0].endswith("set match trivial")


def test_a_ratio_comes_with_its_model():
    lines = table.render(RUN, terminal=False).split("\n")[: len(RUN["cases"])]
    measured = [line for line in lines if " ratio " in line]
    assert len(measured) > 10
    assert all(re.search(r"ratio [\d.e]+ \w+ \((declared|assumed)\)", line) for line in measured)


def test_json_is_strict_and_whole():
    run = copy.deepcopy(RUN)
    run["cases"][0]["metrics"] = {"a": math.nan, "b": math.inf, "c": -math.inf}

    def refuse(constant):
        raise AssertionError(constant)

    read = json.loads(json_format.render(run), parse_constant=refuse)
    assert read["cases"][0]["metrics"] == {"a": "nan", "b": "inf", "c": "-inf"}
    assert read["cases"][1:] == RUN["cases"][1:]


def test_csv_has_one_row_a_case_and_keeps_numbers():
    read = list(csv_reader.DictReader(io.StringIO(csv.render(RUN))))
    assert [row["id"] for row in read] == [row["id"] for row in RUN["cases"]]
    for got, row in zip(read, RUN["cases"], strict=True):
        assert got["param.context_len"] == str(row["params"]["context_len"])
        assert got["param.num_blocks"] == ""
        assert got["seed"] == "42"
        for name, value in row["metrics"].items():
            assert float(got[f"metric.{name}"]) == float(value)
    assert {row["first_bad.expected"] for row in read} >= {"-inf", "1.25", ""}
    assert read[0]["first_bad.row"] == ""
    assert "3" in {row["first_bad.row"] for row in read}


def test_csv_of_a_ragged_length_and_of_nothing():
    run = copy.deepcopy(RUN)
    run["cases"][0]["params"]["context_len"] = [4096, 0, 1, 33]
    assert next(csv_reader.DictReader(io.StringIO(csv.render(run))))["param.context_len"] == "[4096, 0, 1, 33]"
    assert csv.render({"cases": []}).startswith("id,case_file,op,provider,")


def test_a_run_without_cases_or_thresholds():
    run = {"schema": "kvcheck.run/1", "run": {}, "environment": {}, "cases": [], "thresholds": []}
    assert "No case was run." in table.render(run, terminal=False)
    assert "No case was run." in table.render(run, terminal=True, width=80, colour=False)
    assert markdown.render(run).startswith("## kvcheck: no case was run")


def test_markdown_shows_eight_cases_around_the_flip():
    run = copy.deepcopy(RUN)
    base = run["cases"][0]
    run["thresholds"] = [{**run["thresholds"][2], "provider": "triton"}]
    lengths = [*range(2040, 2060), 4096]
    run["cases"] = [
        {**base, "params": {**base["params"], "context_len": n}, "verdict": "pass" if n <= 2048 else "mismatch"} for n in lengths
    ]
    shown = re.findall(r"^\| (\d+) \| `(\w+)`", markdown.render(run), re.M)
    assert [int(n) for n, _ in shown] == list(range(2045, 2053))
    assert [verdict for _, verdict in shown] == ["pass"] * 4 + ["mismatch"] * 4


def test_markdown_fits_a_github_comment():
    run = many(40)
    for row in run["cases"]:
        row["message"] = "x" * 100_000
        row["dispatch"] = "y" * 100_000
    assert len(markdown.render(run)) < 65536


def test_five_thousand_rows_are_quick():
    run = many(200)
    assert len(run["cases"]) > 5000
    csv.render({"cases": run["cases"][:1]})  # pandas is imported here, not timed below
    for render in (json_format.render, csv.render, markdown.render, lambda r: table.render(r, terminal=True, width=120, colour=True)):
        start = time.process_time()  # the machine may be busy with other tests
        render(run)
        assert time.process_time() - start < 5
