"""What report.html says and draws: the heat map, charts, pictures of what is wrong, and the cut at 20,000 cases."""

from __future__ import annotations

import html as escaping
import re
import time
from xml.etree import ElementTree

import pytest

from kvcheck.report import html
from kvcheck.report._html import spread
from kvcheck.report._html.pairs import pairs

from .html_pages import RUN, golden_tree


@pytest.mark.parametrize(
    "broken",
    [None, 7, "x", [], {}, {"axes": ["row"]}, {"axes": ["a", "b"], "shape": [1, 2], "rows": [{"rows": "0", "wrong": "9-1", "inside": ""}]}],
)
def test_a_picture_that_cannot_be_read_is_left_out(broken):
    assert spread.read(broken) is None
    row = next(row for row in RUN["cases"] if row["verdict"] == "mismatch")
    page = html.render({**RUN, "cases": [{**row, "wrong": broken}], "thresholds": []})
    assert "No picture" in page and "<svg" not in page


def test_runs_are_read_as_the_agent_writes_them():
    assert spread.told(spread.runs("3 8-15 64-127/20")) == "3, 8 to 15, 64 to 127 (20 of them)"
    for wrong in ("x", "3-", "5-3", "1-3/9", "1-3/0", "9" * 20):
        with pytest.raises(ValueError, match=".*"):
            spread.runs(wrong)


def test_what_is_wrong_is_drawn_and_said():
    text = " ".join("".join(golden_tree().text).split())
    assert "rows 0–2: 64 to 127; row 5: 3, 70 to 90 (5 of them)." in text
    assert "4 pages with something wrong: 3, 9 to 11; 21 of the pool's 70 pages are used." in text
    assert "2 more wrong rows not kept in run.json." in text


def many(times):
    """The run with its cases repeated under new context lengths."""
    rows = []
    for turn in range(times):
        for row in RUN["cases"]:
            params = {**row["params"], "context_len": 1 + turn * 7 % 16000, "head_dim": 64 + turn % 3}
            rows.append({**row, "id": re.sub(r"context_len=\d+", f"context_len={params['context_len']}", row["id"]), "params": params})
    return {**RUN, "cases": rows}


def test_twenty_thousand_cases_are_quick_and_small():
    run = many(-(-20_000 // len(RUN["cases"])))
    assert len(run["cases"]) >= 20_000
    start = time.process_time()  # the machine may be busy with other tests
    page = html.render(run)
    assert time.process_time() - start < 15
    assert len(page.encode()) < 3_000_000
    assert re.search(r"1,200 of 20,0\d\d cases: [\d,]+ of the [\d,]+ that fail, each way of failing in turn", page)
    assert page.count("<tr class=") == 1200


def test_all_failing_cases_are_kept_where_they_fit():
    run = many(1)
    passing = next(row for row in run["cases"] if row["verdict"] == "pass")
    run["cases"] = [dict(passing) for _ in range(3000)] + [row for row in run["cases"] if row["verdict"] == "mismatch"]
    page = html.render(run)
    assert "all that fail, and of the others those nearest to failing" in page
    assert page.count('<tr class="fail"') == sum(row["verdict"] == "mismatch" for row in run["cases"])


def heat_cells(page, first, second):
    """Words of the heat map's cells by what they search for."""
    at = next(
        n for n, label in enumerate(re.findall(r'<option value="axes-\d+">(.*?)</option>', page)) if label.endswith(f"{first} and {second}")
    )
    panel = page.partition(f'id="axes-{at}"')[2].partition('<div class="panel"')[0]
    return {escaping.unescape(find): said for find, said in re.findall(r'data-find="([^"]*)" title="([^"]*)"', panel)}


def test_the_heat_map_counts_what_the_rows_say():
    base = next(row for row in RUN["cases"] if row["verdict"] == "pass")

    def case(length, table, verdict, provider="p"):
        axes = f"a[context_len={length},block_table={table}]"
        return {**base, "id": axes, "provider": provider, "verdict": verdict, "params": {"context_len": length, "block_table": table}}

    rows = [case(64, "shuffled", "pass"), case(64, "shuffled", "mismatch"), case(64, "reversed", "crash"), case(65, "reversed", "pass")]
    rows += [case(65, "shuffled", "unsupported"), case(64, "shuffled", "nonfinite", "other"), case(65, "reversed", "pass", "other")]
    page = html.render({**RUN, "cases": rows, "thresholds": []})
    cells = heat_cells(page, "context_len", "block_table")
    assert cells["context_len=64 block_table=shuffled provider=p"] == "1 of 2 fails: mismatch"
    assert cells["context_len=64 block_table=reversed provider=p"] == "1 of 1 fails: crash"
    assert cells["context_len=65 block_table=shuffled provider=p"] == "1 case not judged"
    assert cells["context_len=65 block_table=reversed provider=other"] == "the one passes"
    assert len(cells) == 6


def test_the_pair_of_axes_that_decides_comes_first():
    base = next(row for row in RUN["cases"] if row["verdict"] == "pass")
    rows = []
    for number in range(128):
        params = {
            "num_heads": 16 << number % 2,
            "block_size": 1 << number // 2 % 4,
            "next_n": 1 + number // 8 % 2,
            "batch": 1 + number // 16 % 2,
        }
        bad = params["num_heads"] == 32 and params["block_size"] == 8
        rows.append({**base, "params": params, "verdict": "mismatch" if bad else "pass", "id": f"a[{number}]"})
    best = pairs(rows)[0]
    assert {best.first, best.second} == {"num_heads", "block_size"}


def test_flips_and_chance_are_in_the_picture():
    base = next(row for row in RUN["cases"] if row["verdict"] == "pass")
    threshold = {
        "axis": "context_len", "provider": "p", "at": {}, "flips": [{"last_pass": 300, "first_fail": 301, "direction": "pass_to_fail"}],
        "period": None, "monotonic": True, "evaluations": 9, "widest_gap": 9, "trivial_below": 100, "range": [1, 4000],
    }  # fmt: skip
    rows = []
    for length in (1, 100, 200, 300, 301, 1000, 4000):
        metrics = {"max_bound_ratio": 0.5 if length < 301 else 7.0}
        if length > 100:
            metrics |= {"topk_set_match": 1.0 if length < 301 else 0.6, "topk_set_match_chance": 100 / length}
        params = {"context_len": length}
        rows.append(
            {
                **base,
                "provider": "p",
                "params": params,
                "metrics": metrics,
                "trivial": [],
                "verdict": "pass" if length < 301 else "mismatch",
            }
        )
    page = html.render({**RUN, "cases": rows, "thresholds": [threshold]})
    picture = re.search(r"<svg.*?</svg>", page, re.S)[0]
    words = [element.text for element in ElementTree.fromstring(picture).iter("text")]
    assert {
        "300 | 301",
        "set match of the top-k (dashed: chance)",
        "worst ratio to the bound (line: the bound)",
        "cannot fail here",
    } <= set(words)
    assert "stroke-dasharray" in picture and "s-link" in picture
    assert "The verdict flips between 300 and 301." in picture
    assert "passes up to context_len 300, fails from 301" in page
