"""JUnit XML, read back with a parser that others use."""

from __future__ import annotations

import copy
import json
import os
import re
import time
from pathlib import Path

import pytest

from kvcheck.agent.protocol import NOT_JUDGED, VERDICTS, failed
from kvcheck.report import junit

GOLDEN = Path(__file__).parent / "golden"
RUN = json.loads((GOLDEN / "run.json").read_text())
ERRORS = ("crash", "timeout", "harness_error")


@pytest.fixture
def parsed():
    """Suites of a rendered run."""
    library = pytest.importorskip("junitparser.xunit2", reason="junitparser is not installed: pip install junitparser")

    def parse(run):
        return list(library.JUnitXml.fromstring(junit.render(run).encode()))

    return parse


def row_of(verdict):
    return copy.deepcopy(next(row for row in RUN["cases"] if row["verdict"] == verdict))


def run_of(*rows):
    return {**RUN, "cases": list(rows)}


def ends(case):
    return [type(result).__name__ for result in case.result]


def test_golden():
    text = junit.render(RUN)
    if os.environ.get("KVCHECK_WRITE_GOLDEN"):
        (GOLDEN / "junit.xml").write_bytes(text.encode())
    assert text == (GOLDEN / "junit.xml").read_bytes().decode()


def test_one_test_case_a_row_and_counts_that_add_up(parsed):
    suites = parsed(RUN)
    cases = [case for suite in suites for case in suite]
    assert sorted(case.name for case in cases) == sorted(row["id"] for row in RUN["cases"])
    assert len({(case.classname, case.name) for case in cases}) == len(RUN["cases"])
    assert sum(suite.tests for suite in suites) == len(RUN["cases"])
    for attribute, name in (("failures", "Failure"), ("errors", "Error"), ("skipped", "Skipped")):
        for suite in suites:
            assert getattr(suite, attribute) == sum(name in ends(case) for case in suite)
    facts = {prop.name: prop.value for prop in suites[0].properties()}
    assert facts["environment.torch"] == RUN["environment"]["torch"] and facts["environment.device.arch"]
    assert facts["command"] == RUN["run"]["command"]


@pytest.mark.parametrize("verdict", VERDICTS)
def test_each_verdict_ends_as_it_is(parsed, verdict):
    row = row_of(verdict)
    ((case,),) = parsed(run_of(row))
    if verdict == "pass":
        assert ends(case) == []
    elif verdict in ("unsupported", "invalid_case"):
        assert ends(case) == ["Skipped"] and case.result[0].type == f"kvcheck.{verdict}"
        assert row["message"].split("\n")[0][:40] in case.result[0].message
    else:
        assert ends(case) == ["Error" if verdict in ERRORS else "Failure"]
        assert case.result[0].type == verdict
        assert f"again: {row['repro']}" in case.result[0].text and row["id"] in case.result[0].text
    assert failed(verdict) or verdict in NOT_JUDGED or not case.result
    assert case.time == pytest.approx(row["timing"]["total_ms"] / 1e3)


@pytest.mark.parametrize(
    ("verdict", "processes", "failing", "rerun", "flaky"),
    [
        ("mismatch", 10, 10, 9, 0),
        ("mismatch", 10, 3, 0, 2),
        ("mismatch", 10, 1, 0, 0),
        ("crash", 4, 2, 0, 1),
        ("mismatch", 900, 900, 19, 0),
    ],
)
def test_processes_that_failed_are_reruns_or_flaky(parsed, verdict, processes, failing, rerun, flaky):
    row = row_of(verdict) | {"repeats": {"processes": processes, "failing_processes": failing, "calls": processes, "excluded_rate": None}}
    ((case,),) = parsed(run_of(row))
    assert len(case.result) == 1, "the case fails once, whatever the number of processes"
    kinds = (case.rerun_failures(), case.flaky_failures()) if verdict == "mismatch" else (case.rerun_errors(), case.flaky_errors())
    assert [len(kind) for kind in kinds] == [rerun, flaky]
    assert {prop.name: prop.value for prop in case.properties()}["failing_processes"] == f"{failing} of {processes}"


def test_known_failures(parsed):
    entry = {"verdict": "mismatch", "reason": "off by one", "link": "ROCm/aiter#12"}
    known = row_of("mismatch") | {"known": {"state": "known", **entry}}
    passes = row_of("pass") | {"known": {"state": "passes", **entry}, "provider": "p"}
    changed = row_of("crash") | {"known": {"state": "changed", **entry}, "provider": "q"}
    (first,), (second,), (third,) = parsed(run_of(known, passes, changed))
    assert ends(first) == ["Skipped"] and "off by one ROCm/aiter#12" in first.result[0].message
    assert ends(second) == ["Failure"] and "remove it from the list" in second.result[0].message
    assert ends(third) == ["Error"] and "known as mismatch" in third.result[0].message


def test_what_xml_has_no_place_for_is_left_out(parsed):
    starts = {0x1B, 0x90, 0x98, 0x9B, 0x9D, 0x9E, 0x9F}  # of an escape sequence, which would take the rest of the text with it
    codes = {*range(0x20), 0x7F, *range(0x80, 0xA0), 0xD800, 0xDFFF, 0xFFFE, 0xFFFF, 0x1FFFE} - starts
    every = "".join(map(chr, sorted(codes))) + "]]>&<\"'\U0001f600é"
    row = row_of("mismatch")
    row.update(message=every, id=f"c[a={every}]", provider=every, repro=every, dispatch=every, precision=every, output=every)
    run = copy.deepcopy(run_of(row))
    run["environment"][every] = every
    run["run"].update(command=every, id=every, started=every)
    text = junit.render(run)
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", text)
    ((case,),) = parsed(run)
    assert "]]>&<\"'\U0001f600é" in case.result[0].message and case.name.startswith("c[a=")


def test_a_run_without_cases_and_values_that_are_no_numbers(parsed):
    assert parsed({"run": {}, "environment": {}, "cases": [], "thresholds": []}) == []
    row = row_of("mismatch") | {"timing": {"total_ms": None}, "repeats": {"processes": "x"}, "metrics": {"max_bound_ratio": "nan"}}
    ((case,),) = parsed(run_of(row))
    assert case.time == 0


def test_twenty_thousand_rows_are_written_in_seconds():
    run = run_of(*({**row, "id": f"{row['id']}{turn}"} for turn in range(1000) for row in RUN["cases"]))
    assert len(run["cases"]) > 20_000
    start = time.process_time()
    text = junit.render(run)
    assert time.process_time() - start < 30
    assert len(text) < 40_000_000
