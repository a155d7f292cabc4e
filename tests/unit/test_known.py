"""Known failures: what is wrong with a list is told by line and key; a run is green while they fail as they are known to, red otherwise."""

from __future__ import annotations

import copy
import csv as csv_reader
import io
import json
from pathlib import Path

import pytest

from kvcheck.cases.errors import CaseFileError
from kvcheck.cases.known import Known, load
from kvcheck.flow import known
from kvcheck.report import csv, github, junit, markdown, table

RUN = json.loads((Path(__file__).parent / "golden" / "run.json").read_text())
ENTRY = {"case": "c*", "provider": "aiter", "verdict": "mismatch", "reason": "the mask is off by one", "link": "ROCm/aiter#12"}


@pytest.fixture
def listed(tmp_path):
    """Loads a list written as text."""

    def read(text):
        file = tmp_path / "known.yaml"
        file.write_text(text)
        return load(file)

    return read


def entry(**changes):
    return Known(**{"file": "known.yaml", "line": 1, **ENTRY, **changes})


def row(verdict, case="c[a=1]", provider="aiter", **more):
    return {"id": case, "provider": provider, "verdict": verdict, "message": "", "output": "logits", "check": "bound", **more}


def run_of(*rows, device=None):
    return {"run": {"exit_code": None}, "environment": {"device": device or {}}, "cases": list(rows), "thresholds": []}


def test_a_sound_list(listed):
    found = listed("""
- case: paged_mqa[context_len=*,block_size=1]
  provider: aiter
  verdict: nonfinite
  check: finite_mask
  reason: the old wheel
  link: https://github.com/ROCm/aiter/pull/1
  arch: gfx94?
- {case: a, provider: "*", verdict: crash, reason: it crashes, link: "o/r#1", may_pass: true}
""")
    assert [each.line for each in found] == [2, 9]
    first = found[0]
    assert first.names("paged_mqa[context_len=64,block_size=1]", "aiter") and not first.names("paged_mqa[context_len=64]", "aiter")
    assert not first.names("paged_mqa[context_len=64,block_size=1]", "aiter:x")
    assert first.here({"arch": "gfx942"}) and not first.here({"arch": "gfx950"}) and not first.here({})
    assert first.fails_so("nonfinite", "logits", "finite_mask") and not first.fails_so("nonfinite", "logits", "bound")
    assert found[1].may_pass and found[1].names("a", "anything")
    assert listed("[]") == ()


FAULTS = [
    ("", "known.yaml:1: expected a list of known failures, got an empty file"),
    ("case: a", "known.yaml:1: expected a list of known failures: a list, got 'mapping'"),
    ("- 7", "known.yaml:1: [0]: expected an entry: case, provider, verdict, reason, link, got 7"),
    ("- {provder: x}", "[0].provder: expected one of case, provider,"),
    ("- {provder: x}", "got provder; nearest: provider"),
    ("- {provider: x}", "[0].case: expected an id of a case, or a pattern with * and ?, got no such key"),
    ("- {verdict: nonfinit}", "got 'nonfinit'; nearest: nonfinite"),
    ("- {verdict: pass}", "[0].verdict: expected one of mismatch,"),
    ("- {verdict: unsupported}", "[0].verdict: expected one of mismatch,"),
    ("- {link: somewhere}", "[0].link: expected where it is tracked: an http address or OWNER/REPO#N, got 'somewhere'"),
    ("- {reason: ''}", "[0].reason: expected a sentence"),
    ("- {may_pass: 1}", "[0].may_pass: expected true for a failure that comes and goes, else false, got 1"),
    ("- {case: 7}", "[0].case: expected an id of a case, or a pattern with * and ?, got 7"),
    ("- {case: a, case: b}", "expected each key once"),
    ("- [", "expected YAML"),
]


@pytest.mark.parametrize(("text", "message"), FAULTS)
def test_faults_of_a_list(listed, text, message):
    with pytest.raises(CaseFileError) as error:
        listed(text)
    assert message in str(error.value)


def test_all_faults_at_once_and_a_repeated_entry(listed):
    one = json.dumps(ENTRY)
    with pytest.raises(CaseFileError) as error:
        listed(f"- {one}\n- {{link: x}}\n- {one}\n- 3\n")
    text = str(error.value)
    assert "known.yaml:3: [2]: expected each failure once (first on line 1)" in text
    assert "known.yaml:4: [3]:" in text and "known.yaml:2: [1].link" in text
    with pytest.raises(CaseFileError, match="a readable list of known failures, got No such file"):
        load("nowhere.yaml")


@pytest.mark.parametrize(
    ("rows", "entries", "code", "states"),
    [
        ([row("mismatch"), row("pass", "d")], [entry()], 0, ["known", None]),
        ([row("mismatch")], [entry()], 0, ["known"]),
        ([row("mismatch"), row("mismatch", "d")], [entry()], 1, ["known", None]),
        ([row("mismatch"), row("mismatch", provider="triton")], [entry()], 1, ["known", None]),
        ([row("crash")], [entry()], 1, ["changed"]),
        ([row("mismatch", check="topk")], [entry(check="bound")], 1, ["changed"]),
        ([row("mismatch", output="lse")], [entry(output="logits")], 1, ["changed"]),
        ([row("pass")], [entry()], 1, ["passes"]),
        ([row("pass"), row("mismatch", "c[a=2]")], [entry()], 1, ["passes", "known"]),
        ([row("pass")], [entry(may_pass=True)], 0, [None]),
        ([row("crash")], [entry(may_pass=True)], 1, ["changed"]),
        ([row("crash")], [entry(), entry(verdict="crash")], 0, ["known"]),
        ([row("unsupported"), row("pass", "d")], [entry()], 0, [None, None]),
        ([row("unsupported")], [entry()], 3, [None]),
        ([row("mismatch"), row("harness_error", "d")], [entry()], 3, ["known", None]),
        ([row("pass", "d")], [entry()], 0, [None]),
        ([row("mismatch")], [entry(arch="gfx942")], 1, [None]),
    ],
)
def test_green_until_it_changes(rows, entries, code, states):
    found = known.apply(run_of(*rows, device={"type": "cpu", "arch": "cpu"}), tuple(entries))
    assert found["run"]["exit_code"] == code
    assert [(each.get("known") or {}).get("state") for each in found["cases"]] == states


def test_a_list_is_applied_anew_and_changes_nothing_else():
    run = run_of(row("mismatch"), row("pass", "d"))
    kept = copy.deepcopy(run)
    once = known.apply(run, (entry(),))
    assert run == kept
    assert known.apply(once, (entry(),)) == once
    assert known.apply(run, ()) is run
    assert once["known_failures"][0] | {"where": ""} == {**ENTRY, "where": "", "fails": 1, "passes": 0, "changed": 0}
    again = known.apply(once, (entry(case="nothing"),))
    assert "known" not in again["cases"][0] and again["run"]["exit_code"] == 1


def marked():
    """The golden run with its first failure known, the first pass expected to fail, and an entry that meets nothing."""
    failing = next(each for each in RUN["cases"] if each["verdict"] == "mismatch")
    passing = next(each for each in RUN["cases"] if each["verdict"] == "pass")
    entries = (
        entry(case=failing["id"], provider=failing["provider"], reason="known <b>@all</b>"),
        entry(case=passing["id"], provider=passing["provider"], reason="was fixed"),
        entry(case="not_here[*]", reason="elsewhere"),
    )
    return known.apply(RUN, entries), failing, passing


def test_every_format_shows_it_as_known_and_never_as_a_pass():
    run, failing, passing = marked()
    failures = sum(each["verdict"] not in ("pass", "unsupported", "invalid_case", "harness_error") for each in RUN["cases"])
    for text in (table.render(run, terminal=False), table.render(run, terminal=True, width=200, colour=False)):
        assert "1 failure is known: known <b>@all</b> (ROCm/aiter#12)." in text
        assert "Known failure passes now: remove it from the list:" in text and passing["id"] in text
        assert "1 known failure met no judged case of this run: not_here[*]@aiter (known.yaml:1)." in text
        assert f"{failures} of " in text and "1 known, 1 known failure passes now" in text
    for text in (markdown.render({**run, "thresholds": []}), github.render({**run, "thresholds": []})):
        assert "`mismatch (known)`" in text and "`pass (known failure passes)`" in text
        assert "1 failure is known: `known <b>@all</b>` (`ROCm/aiter#12`)." in text
        assert "<b>" not in text.replace("`known <b>@all</b>`", "")
    rows = {(each["id"], each["provider"]): each for each in csv_reader.DictReader(io.StringIO(csv.render(run)))}
    assert rows[(failing["id"], failing["provider"])]["verdict"] == "mismatch"
    assert rows[(failing["id"], failing["provider"])]["known.state"] == "known"
    text = junit.render(run)
    assert 'type="kvcheck.known"' in text and 'type="kvcheck.known_failure_passes"' in text
    assert "known failure (mismatch): known &lt;b&gt;@all&lt;/b&gt; ROCm/aiter#12" in text


def test_news_is_shown_before_what_is_known():
    base = next(each for each in RUN["cases"] if each["verdict"] == "mismatch")
    rows = [{**base, "id": f"c[a={i}]", "provider": f"p{i}"} for i in range(8)]
    run = known.apply({**RUN, "cases": rows, "thresholds": []}, tuple(entry(case=f"c[a={i}]", provider=f"p{i}") for i in range(7)))
    assert run["run"]["exit_code"] == 1
    shown = markdown.render(run).partition("### What failed")[2]
    assert shown.index("provider p7") < shown.index("provider p0")
