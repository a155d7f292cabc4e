"""The comment for GitHub: it fits whatever the run, says what was cut, and folds well."""

from __future__ import annotations

import copy
import json
import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvcheck.report import github

GOLDEN = Path(__file__).parent / "golden"
RUN = json.loads((GOLDEN / "run.json").read_text())
SCRIPT = "import torch\n\nprint('expected 1, got 2')  # @octocat ``` <img>\nraise SystemExit(1)\n"


def failing(run):
    return next(row for row in run["cases"] if row["verdict"] == "mismatch")


def with_script(script=SCRIPT):
    """The golden run where the case shown in full has a script."""
    run = copy.deepcopy(RUN)
    run["thresholds"] = []
    run["cases"] = [failing(run), *(row for row in run["cases"] if row["verdict"] == "pass")]
    found = {"fault": "wrong_past=2048", "explains": 1, "elements": 3, "sentence": "every row above 2048 is wrong"}
    run["cases"][0].update(repro_script=script, diagnosis=[found])
    return run


def long(times=10, size=20_000):
    """A run in which everything that can be long is."""
    run = copy.deepcopy(RUN)
    run["cases"] = [{**row, "provider": f"{row['provider']}-{turn}"} for turn in range(times) for row in RUN["cases"]]
    for row in run["cases"]:
        for key in ("message", "dispatch", "repro", "provider_version", "precision", "id", "op", "output"):
            row[key] = f"{key} " + "\U0001f600`|<" * (size // 4)
        row["params"] = {f"axis{i}": "v" * size for i in range(60)}
        row["diagnosis"] = [{"fault": "wrong_past=1", "explains": 1, "elements": 3, "sentence": "s" * size}]
        row["relations"] = [{"name": "n" * size, "calls": 1, "notes": ["refused: " + "r" * size]}]
    run["thresholds"] = [
        {**threshold, "provider": "p" * size, "axis": "a" * size, "incomplete": "i" * size} for threshold in run["thresholds"] * 30
    ]
    run["environment"] = {f"fact{i}": "f" * size for i in range(500)}
    run["run"]["command"] = "c" * size
    return run


def units(text):
    """Length in UTF-16 units, the most that anybody counts."""
    return len(text.encode("utf-16-le")) // 2


def balanced(text):
    """Whether folds and fences are closed where they are opened; fences first, since a fold inside one is text."""
    outside = re.sub(r"^(`{3,})\w+\n.*?\n\1$", "", text, flags=re.M | re.S)
    outside = re.sub(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)", "", outside)
    assert "`" not in outside, outside
    depth = 0
    for tag in re.findall(r"</?details>", outside):
        depth += 1 if tag == "<details>" else -1
        assert depth in (0, 1)
    return depth == 0


def test_golden():
    text = github.render(RUN)
    if os.environ.get("KVCHECK_WRITE_GOLDEN"):
        (GOLDEN / "github.md").write_bytes(text.encode())
    assert text == (GOLDEN / "github.md").read_bytes().decode()


def test_the_order_of_a_comment():
    text = github.render(with_script())
    order = ["## kvcheck: ", "**`mismatch`** of `logits`", "### Diagnosis", "### Cases", "### Reproducer", "### The exact command"]
    order += ["<summary>What failed", "<summary>All axes", "<summary>Environment", "<!-- kvcheck report "]
    places = [text.find(part) for part in order]
    assert -1 not in places and places == sorted(places), list(zip(order, places, strict=True))
    assert text.splitlines()[0].startswith("## kvcheck: 1 of ")
    assert balanced(text) and "Cut to fit" not in text
    assert "````python\nimport torch\n" in text, "a fence longer than the backticks in it"


def test_the_first_flip_has_eight_cases_and_its_failing_side_is_shown_in_full():
    run = copy.deepcopy(RUN)
    base = run["cases"][0]
    run["thresholds"] = [{**run["thresholds"][2], "provider": "triton"}]
    lengths = [*range(2040, 2060), 4096]
    run["cases"] = [
        {
            **base,
            "id": f"c[context_len={n}]",
            "params": {**base["params"], "context_len": n},
            "verdict": "pass" if n <= 2048 else "mismatch",
        }
        for n in lengths
    ]
    text = github.render(run)
    assert [int(n) for n in re.findall(r"^\| (\d+) \|", text, re.M)] == list(range(2045, 2053))
    assert run["thresholds"][0]["flips"][0]["first_fail"] == 2049
    assert "### The flip\n\n- `triton`" in text
    assert "context_len: 2049" in text.partition("All axes of the first failing case")[2]


def test_a_script_that_is_too_long_is_named_and_not_cut():
    text = github.render(with_script("x = 1\n" * 30_000))
    assert "A script of 30,000 lines that needs no kvcheck: `kvcheck repro RUN CASE_ID`." in text
    assert "x = 1" not in text and "### Again" in text


@pytest.mark.parametrize("make", [long, lambda: long(2, 3000), lambda: long(1, 300), lambda: with_script("y = 2\n" * 3900)])
def test_it_fits_and_is_whole(make):
    run = make()
    text = github.render(run)
    assert units(text) < github.LIMIT
    assert balanced(text)
    assert text.startswith("## kvcheck: ") and "### The exact command" in text


def test_the_least_important_goes_first_and_is_named():
    cuts = []
    for times, size in ((1, 10), (1, 2000), (10, 20_000)):
        text = github.render(long(times, size))
        cut = re.search(r"Cut to fit GitHub's limit: (.*)\. run\.json holds everything\.", text)
        cuts.append(cut[1] if cut else "")
    assert cuts[-1].startswith("verdicts") or "the environment" in cuts[-1]
    run = with_script("z = 3\n" * 3900)
    run["environment"] = {f"fact {i}": "f" * 190 for i in range(79)}
    for row in run["cases"]:
        row["params"] = {f"axis{i}": "v" * 190 for i in range(19)}
    run["cases"] *= 3
    text = github.render(run)
    assert "z = 3" in text and units(text) < github.LIMIT


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(1, 12),
    st.integers(0, 30_000),
    st.text(alphabet=st.sampled_from("`|<\U0001f600 \n@a"), min_size=1, max_size=6),
    st.booleans(),
)
def test_it_fits_whatever_the_run(times, size, piece, scripted):
    run = copy.deepcopy(RUN)
    run["cases"] = [{**row, "provider": f"{row['provider']}{turn}"} for turn in range(times) for row in RUN["cases"]]
    said = (piece * (size // len(piece) + 1))[:size]
    for row in run["cases"][:200]:
        row.update(
            message=said, dispatch=said, id=said[:3000], repro=said, params={"a": said, said[:50]: 1}, diagnosis=[{"sentence": said}]
        )
    if scripted:
        for row in run["cases"]:
            row["repro_script"] = said
    run["environment"] = {f"f{i}": said for i in range(200)}
    text = github.render(run)
    assert units(text) < github.LIMIT and balanced(text)


def test_the_marker_names_the_case_files_and_cannot_be_ended():
    run = copy.deepcopy(RUN)
    assert github.render(run).rstrip().endswith("<!-- kvcheck report paged_mqa,vllm_39303 -->")
    for row in run["cases"]:
        row["id"] = "x--><script>[a=1]"
    assert "<!-- kvcheck report xscript -->" in github.render(run)
    assert "<!-- kvcheck report of-nothing -->" in github.render({"run": {}, "environment": {}, "cases": [], "thresholds": []})


def test_twenty_thousand_rows_are_quick():
    run = copy.copy(RUN)
    run["cases"] = [{**row, "seed": turn} for turn in range(1000) for row in RUN["cases"]]
    assert len(run["cases"]) > 20_000
    start = time.process_time()
    github.render(run)
    assert time.process_time() - start < 15
