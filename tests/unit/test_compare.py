"""What changed between two runs: what is worse, what is better, what drifted, and what differs around them."""

from __future__ import annotations

import copy
import csv as csv_reader
import io
import json
import time
from pathlib import Path

import pytest

from kvcheck.cases.known import Known
from kvcheck.flow import known
from kvcheck.flow.compare import compare, split
from kvcheck.flow.compare_thresholds import moved
from kvcheck.report import compared

RUN = json.loads((Path(__file__).parent / "golden" / "run.json").read_text())


def row(verdict, case="c[a=1]", provider="aiter", ratio=0.1, **more):
    return {
        "id": case, "op": "paged_mqa_logits", "provider": provider, "verdict": verdict, "message": "", "input_fingerprint": "f",
        "metrics": {"max_bound_ratio": ratio}, "repro": f"kvcheck run c --only '{case}'", **more,
    }  # fmt: skip


def run_of(*rows, thresholds=(), **environment):
    info = {"id": "c-20261130", "started": "s", "command": "kvcheck run c"}
    return {"run": info, "environment": environment, "cases": list(rows), "thresholds": list(thresholds)}


def one(before, after, **options):
    result = compare(run_of(before), run_of(after), **options)
    (entry,) = result["entries"]
    return entry["change"], entry["worse"], result["exit_code"]


@pytest.mark.parametrize(
    ("before", "after", "change", "worse", "code"),
    [
        ("pass", "pass", "same", False, 0),
        ("mismatch", "mismatch", "same", False, 0),
        ("pass", "mismatch", "newly_failing", True, 1),
        ("unsupported", "crash", "newly_failing", True, 1),
        ("harness_error", "timeout", "newly_failing", True, 1),
        ("mismatch", "pass", "newly_passing", False, 0),
        ("mismatch", "crash", "changed", True, 1),
        ("pass", "unsupported", "not_judged_any_more", True, 1),
        ("pass", "harness_error", "not_judged_any_more", True, 1),
        ("crash", "unsupported", "not_judged_any_more", False, 3),
        ("crash", "harness_error", "not_judged_any_more", True, 1),
        ("unsupported", "pass", "judged_now", False, 3),
        ("unsupported", "unsupported", "same", False, 3),
        ("unsupported", "harness_error", "changed", True, 1),
    ],
)
def test_each_change(before, after, change, worse, code):
    assert one(row(before), row(after)) == (change, worse, code)


def test_a_failure_is_the_same_by_verdict_output_and_check():
    base = row("mismatch", output="logits", check="bound")
    assert one(base, copy.deepcopy(base) | {"message": "other words"})[0] == "same"
    assert one(base, base | {"check": "topk"})[:2] == ("changed", True)
    assert one(base, base | {"output": "lse"})[:2] == ("changed", True)


@pytest.mark.parametrize(
    ("before", "after", "change", "factor"),
    [
        (0.1, 0.11, "same", None),
        (0.1, 0.9, "drift", 9),
        (0.9, 0.1, "drift", 1 / 9),
        (0.1, 0.399, "same", None),
        (0.0, 1e-7, "same", None),
        (1e-9, 0.5, "drift", 0.5e6),
        (None, 0.5, "same", None),
        ("nan", 0.5, "same", None),
    ],
)
def test_drift_is_told_and_is_not_worse(before, after, change, factor):
    result = compare(run_of(row("pass", ratio=before)), run_of(row("pass", ratio=after)))
    (entry,) = result["entries"]
    assert (entry["change"], entry["worse"], result["exit_code"]) == (change, False, 0)
    if factor:
        assert entry["factor"] == pytest.approx(factor)
    assert one(row("pass", ratio=0.1), row("pass", ratio=0.11), drift=1.05)[0] == "drift"
    trivial = {"trivial": ["max_bound_ratio"]}
    assert one(row("pass", ratio=0.1, **trivial), row("pass", ratio=0.9, **trivial))[0] == "same"
    assert one(row("mismatch", ratio=10), row("mismatch", ratio=1000))[0] == "same"


def test_what_is_in_one_run_alone_is_told_and_not_judged():
    result = compare(run_of(row("pass"), row("pass", "gone")), run_of(row("pass"), row("crash", "new")))
    assert result["counts"] == {"only_after": 1, "only_before": 1, "same": 1} and result["exit_code"] == 0
    text = compared.render(result, "table")
    assert "1 case only before." in text and "1 case only after, 1 of them failing." in text
    nothing = compare(run_of(row("pass", "a")), run_of(row("pass", "b")))
    assert nothing["exit_code"] == 3
    assert compared.render(nothing, "table").startswith("Nothing can be compared: no case was judged on both sides.")
    assert compare(run_of(), run_of())["exit_code"] == 3


def test_known_failures_are_not_worse_and_known_ones_that_pass_are():
    entry = Known("k.yaml", 1, "c*", "aiter", "mismatch", "off by one", "o/r#1")
    before, after = run_of(row("pass")), known.apply(run_of(row("mismatch")), (entry,))
    result = compare(before, after)
    assert (result["entries"][0]["change"], result["exit_code"]) == ("newly_failing", 0)
    assert "1 of these failures is known and not counted as worse." in compared.render(result, "table")
    assert "<skipped" in compared.render(result, "junit") and "<failure" not in compared.render(result, "junit")
    fixed = compare(known.apply(run_of(row("mismatch")), (entry,)), known.apply(run_of(row("pass")), (entry,)))
    assert (fixed["entries"][0]["change"], fixed["exit_code"]) == ("known_passes", 1)
    other = compare(before, known.apply(run_of(row("crash")), (entry,)))
    assert other["exit_code"] == 1


def test_two_providers_are_paired_by_case():
    both = run_of(row("pass", provider="a"), row("crash", provider="b"), row("pass", "d", provider="a"), row("pass", "d", provider="b"))
    result = compare(*split(both, "a", "b"), across=True)
    assert result["across"] and result["counts"] == {"newly_failing": 1, "same": 1} and result["exit_code"] == 1
    assert result["entries"][0]["providers"] == ["a", "b"]
    # Two runs of one provider each, which differ: the same.
    assert compare(run_of(row("pass", provider="a")), run_of(row("crash", provider="b")))["counts"] == {"newly_failing": 1}
    # Runs that share a provider are paired by case and provider.
    shared = compare(run_of(row("pass", provider="a"), row("pass", provider="b")), run_of(row("crash", provider="b")))
    assert shared["counts"] == {"newly_failing": 1, "only_before": 1} and not shared["across"]


def test_versions_that_differ():
    before = run_of(row("pass", provider_version="0.1"), torch="2.12", triton="3.7", device={"name": "x"}, variables={"A": "1"})
    after = run_of(row("pass", provider_version="0.2"), torch="2.13", triton="3.7", device={"name": "x"}, modules={"m.so": "ab"})
    facts = {fact["what"]: (fact["before"], fact["after"]) for fact in compare(before, after)["versions"]}
    assert facts == {
        "torch": ("2.12", "2.13"),
        "variables A": ("1", None),
        "modules m.so": (None, "ab"),
        "provider aiter": ("0.1", "0.2"),
    }
    assert "  variables A: 1 -> nothing\n" in compared.render(compare(before, after), "table")


def test_other_inputs_are_no_evidence():
    result = compare(run_of(row("pass")), run_of(row("mismatch", input_fingerprint="g")))
    assert result["entries"][0]["other_inputs"]
    assert "1 changed case had other inputs on the two sides" in compared.render(result, "markdown")


def threshold(*flips, low=1, high=100, provider="aiter", fails=0):
    made = [
        {"last_pass": p, "first_fail": f, "direction": "pass_to_fail" if p < f else "fail_to_pass"} for p, f in flips
    ]  # a passing neighbour below is the way down
    return {
        "axis": "context_len", "provider": provider, "at": {"b": 1}, "case": "c", "range": [low, high], "flips": made, "evaluations": 9,
        "widest_gap": None, "period": None, "trivial_below": None, "counts": {"pass": 1, "fail": fails, "unknown": 0},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [
        (threshold(), threshold(), None),
        (threshold(), threshold((50, 51)), True),
        (threshold((50, 51)), threshold(), False),
        (threshold((50, 51)), threshold((40, 41)), True),
        (threshold((50, 51)), threshold((60, 61)), False),
        (threshold((51, 50)), threshold((61, 60)), True),
        (threshold((51, 50)), threshold((41, 40)), False),
        (threshold((20, 21), (31, 30)), threshold((20, 21), (31, 30), (80, 81)), True),
        (threshold((20, 21), (31, 30), (80, 81)), threshold((20, 21), (31, 30)), False),
        (threshold(fails=3), threshold((50, 51)), False),
        (threshold(), threshold(fails=3), True),
        (threshold((50, 51), high=60), threshold((50, 51), high=100), None),
        (threshold(high=60), threshold((80, 81), high=100), False),
    ],
)
def test_flips_that_moved(before, after, worse):
    found = moved([before], [after])
    if worse is None:
        assert not found or not found[0]["worse"]
    else:
        assert [entry["worse"] for entry in found] == [worse]
    result = compare(run_of(row("pass"), thresholds=[before]), run_of(row("pass"), row("crash", "x"), thresholds=[after]))
    assert result["exit_code"] == (1 if worse else 0)
    assert moved([before], [after | {"provider": "other"}]) == []


FORMATS = compared.FORMATS


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_names_what_got_worse_and_how_to_see_it(form):
    before = run_of(row("pass"), row("pass", "d"), row("crash", "e"), torch="2.12")
    after = run_of(row("mismatch", output="logits", check="bound"), row("pass", "d"), row("pass", "e"), torch="2.13")
    text = compared.render(compare(before, after), form)
    assert "c[a=1]" in text and "kvcheck run c --only" in text
    if form != "csv":
        assert "2.12" in text and "2.13" in text
    if form == "json":
        assert json.loads(text)["schema"] == "kvcheck.compare/1"
    if form == "csv":
        rows = {each["id"]: each for each in csv_reader.DictReader(io.StringIO(text))}
        assert rows["c[a=1]"]["worse"] == "yes" and rows["e"]["change"] == "newly_passing" and "d" not in rows
    if form == "junit":
        library = pytest.importorskip("junitparser.xunit2", reason="junitparser is not installed: pip install junitparser")
        (suite,) = library.JUnitXml.fromstring(text.encode())
        assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (3, 1, 0, 0)
    if form in ("table", "markdown", "github"):
        assert "1 thing got worse" in text and "1 newly failing, 1 newly passing and 1 the same" in text


def test_a_comment_fits_and_twenty_thousand_rows_are_compared_in_seconds():
    long = "x" * 500
    cases = [row("pass", f"{long}[a={i}]", message=long) for i in range(20_000)]
    after = [{**each, "verdict": "mismatch" if i % 2 else "crash"} for i, each in enumerate(cases)]
    start = time.process_time()
    result = compare(run_of(*cases), run_of(*after))
    texts = {form: compared.render(result, form) for form in FORMATS}
    assert time.process_time() - start < 60
    assert len(texts["github"]) < 65_536 and "20,000 things got worse" in texts["github"]
    assert texts["csv"].count("\n") == 20_001
    assert len(texts["table"].splitlines()) < 400


def test_the_golden_run_against_itself():
    result = compare(RUN, RUN)
    assert set(result["counts"]) == {"same"} and result["exit_code"] == 0 and result["versions"] == [] == result["thresholds"]
