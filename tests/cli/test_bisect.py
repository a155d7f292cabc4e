"""`kvcheck bisect` over a range that is written down, its agents played by a double: what is found, and what is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .bisect_range import OTHER, WRONG, asked


def test_a_range_is_walked_in_the_steps_that_it_takes_and_each_leaves_a_run(double):
    done = double.write("g" * 7 + "b" * 5).run()
    assert (done.found["outcome"], done.found["good"], done.found["bad"]) == ("found", 6, 7)
    assert asked(done) == [
        ("n11", "bad end", "bad"),
        ("n00", "good end", "good"),
        ("n05", "between", "good"),
        ("n08", "between", "bad"),
        ("n06", "between", "good"),
        ("n07", "between", "bad"),
        ("n07", "again", "bad"),
        ("n06", "again", "good"),
    ]
    for step in done.steps:
        run = json.loads((double.folder / "o" / step["folder"] / "run.json").read_text())
        assert run["schema"] == "kvcheck.run/1" and len(run["cases"]) == 2
    assert "step 3, about 5 left, about " in done.err and "  bad in " in done.err
    report = (double.folder / "o" / "report.md").read_text()
    assert done.out.startswith(report) and report.startswith("## kvcheck bisect `double`: broken by `n07`")
    for text in (
        "The fault (`mismatch`) comes in with `n07`: the last good one is `n06`, the first bad one `n07`. Both were run again",
        "| `double` | `1.n06` | `1.n07` |",
        "MISMATCH topk_per_row: as told",
        "again: kvcheck run case.yaml --only 'top[context_len=64]'",
        "| 4 | `n08` | `n08` | between | bad |",
        "kvcheck bisect double range.json smoke --good n06 --bad n07",
        "kvcheck bisect double range.json case.yaml --good n00 --bad n11 --out o --timeout 20",
        "`2 nights have no image, which is usual`",
    ):
        assert text in report, text
    assert "`torch`" not in report  # what is the same in both neighbours
    log = Path(f"{double.file}.log").read_text().splitlines()
    assert log[:4] == ["open", "candidates", "place n11", "ahead n00 n05"] and log[-1] == "close"


def test_a_fix_is_found_from_the_other_side(double):
    done = double.write("bbbbggg").run("--find", "fix", good="n06", bad="n00")
    assert (done.found["outcome"], done.found["bad"], done.found["good"]) == ("found", 3, 4)
    assert "fixed by `n04`" in done.out and "goes with `n04`: the last bad one is `n03`, the first good one `n04`" in done.out
    assert "| `double` | `1.n03` | `1.n04` |" in done.out


@pytest.mark.parametrize(
    ("text", "outcome", "says"),
    [
        ("ggggg", "bad end is good", "The bad end is good: no case fails at `n04`. Nothing was searched."),
        ("bbbbb", "good end is bad", "The good end is bad: `n00` fails like `n04`. Nothing was searched."),
    ],
)
def test_an_end_that_is_not_what_it_was_named_ends_it_with_3(double, text, outcome, says):
    done = double.write(text).run(code=3)
    assert done.found["outcome"] == outcome and says in done.out
    assert len(done.steps) <= 2


UNKNOWN = {
    "does not start": ({"start": "dies"}, "cannot open libtorch"),
    "has no GPU": ({"start": "refuses"}, "torch sees no GPU"),
    "cannot be pulled": ({"unavailable": "the pull failed: manifest unknown"}, "the pull failed: manifest unknown"),
    "lacks the package": ({"act": ["load", "message:provider aiter did not load", "verdict:harness_error"]}, "provider aiter did not load"),
    "dies as it is loaded": ({"act": ["load", "signal:SIGSEGV"]}, "its provider could not be loaded: SIGSEGV"),
    "hangs as it is loaded": ({"act": ["inputs", "sleep:60"]}, "not finished within 2 s"),
    "cannot import": (
        {"act": ["kernel", "message:ModuleNotFoundError: No module named 'aiter'", "verdict:crash"]},
        "could not be imported",
    ),
    "wants the network": ({"act": ["kernel", "message:RuntimeError: Could not resolve host: example.com", "verdict:crash"]}, "the network"),
    "cannot be built": (
        {"act": ["kernel", "message:RuntimeError: Error building extension 'module_x'", "verdict:crash"]},
        "could not be built",
    ),
    "is killed": ({"act": ["kernel", "signal:SIGKILL"]}, "killed from outside"),
    "cannot serve the case": ({"act": ["verdict:unsupported"]}, "unsupported: as told"),
    "has another device": ({"device": "cuda"}, "it ran on cuda, and this bisect runs on cpu"),
    "fails in another way": ({"act": OTHER}, "fails in another way"),
    "hangs": ({"act": ["kernel", "sleep:60"]}, "fails in another way"),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_says_nothing_of_the_fault_is_unknown_and_never_bad(double, what):
    entry, reason = UNKNOWN[what]
    # 5 is the first middle: taken for bad it would be the boundary, taken for good it would not be seen.
    done = double.write("g" * 8 + "b" * 3, n05=entry).run("--timeout", "2")
    assert (done.found["outcome"], done.found["good"], done.found["bad"]) == ("found", 7, 8)
    (step,) = [step for step in done.steps if step["label"] == "n05"]
    assert step["kind"] == "unknown" and reason in step["reason"], step
    assert " ".join(step["reason"].split())[:60] in done.out


def test_another_failure_on_the_way_is_reported(double):
    done = double.write("g" * 8 + "b" * 3, n05={"act": OTHER}, n06={"act": ["kernel", "sleep:30"]}).run("--timeout", "1")
    assert done.found["bad"] == 8
    assert {entry["identity"][0]: entry["where"] for entry in done.found["others"]} == {"nonfinite": [5], "timeout": [6]}
    assert "### Other failures on the way" in done.out and "- `nonfinite` in `top[context_len=64]@torch_eager` at `n05`" in done.out


def test_a_hang_can_be_what_is_looked_for(double):
    hang = {"act": ["kernel", "sleep:60"]}
    done = double.write("ggggg", n03=hang, n04=hang).run("--timeout", "0.5", "--jobs", "2")
    assert done.found["bad"] == 3 and done.found["sought"]["identity"][0] == "timeout"


def test_crashes_of_other_kinds_are_other_failures(double):
    crash = {"act": ["kernel", "message:TypeError: missing argument", "verdict:crash"]}
    lost = {"act": ["kernel", "message:RuntimeError: misaligned address", "verdict:crash"]}
    done = double.write("ggggggg", n03=lost, n04=crash, n05=crash, n06=crash).run(code=3)
    assert done.found["sought"]["identity"] == ["crash", "", "TypeError"]
    assert (done.found["outcome"], done.found["good"], done.found["bad"], done.found["between"]) == ("bracket", 2, 4, [3])
    assert "No single change was found" in done.out and "1 candidate between them could not be judged" in done.out


def test_what_always_fails_is_not_what_is_looked_for(double):
    always, also = {"top[context_len=64]": WRONG}, {"top[context_len=64]": WRONG, "top[context_len=128]": WRONG}
    entries = {f"n{i:02d}": {"act": always if i < 4 else also} for i in range(7)}
    done = double.write("ggggggg", **entries).run()
    assert done.found["bad"] == 4 and done.found["others"] == []
    assert done.found["sought"]["probes"] == ["top[context_len=128]@torch_eager"]
    assert "| `top[context_len=128]@torch_eager` | `pass` | `mismatch` |" in done.out
    assert "1 case answers alike in both" in done.out


def test_a_stretch_at_the_boundary_is_named_and_the_code_is_3(double):
    gone = {"unavailable": "gone"}
    done = double.write("ggggbbbb", n03=gone, n04=gone).run(code=3)
    assert (done.found["outcome"], done.found["good"], done.found["bad"], done.found["between"]) == ("bracket", 2, 5, [3, 4])
    assert "Between them, without an answer: `n03` and `n04`." in done.out


def test_an_end_that_cannot_be_tried_is_replaced_and_that_is_said(double):
    done = double.write("gggbbbbb", n07={"unavailable": "removed after 14 days"}).run()
    assert done.found["bad"] == 3
    assert "The bad end that was named, `n07`, has no answer; `n06` was taken for it." in done.out


def test_a_flaky_fault_takes_runs_and_the_confidence_is_printed(double):
    flaky = {"turns": [[], WRONG, WRONG]}
    done = double.write("ggggggg", **{f"n{i:02d}": flaky for i in range(3, 7)}).run("--runs", "6")
    assert (done.found["outcome"], done.found["good"], done.found["bad"]) == ("found", 2, 3)
    assert done.found["rate"]["failures"] == 4 and done.found["rate"]["runs"] == 6
    assert "The bad end failed in 4 of 6 runs: p is about 0.67, and at least 0.27 (95 %)." in done.out
    assert "confidence 1-(1-p)^6 = 99.9 % (at least 85.0 %)" in done.out
    good = [step for step in done.steps if step["kind"] == "good"]
    assert good and all(len(step["runs"]) == 6 for step in good)
    bad = [step for step in done.steps if step["kind"] == "bad" and step["why"] == "between"]
    assert bad and all(len(step["runs"]) == 2 for step in bad)
    assert (double.folder / "o" / good[0]["folder"] / "run-6" / "run.json").is_file()


def test_neighbours_that_contradict_themselves_end_it_with_3(double):
    done = double.write("ggggggg", n06={"act": WRONG}, n05={"turns": [WRONG, []]}, n04={"turns": [WRONG, []]}).run(code=3)
    assert done.found["outcome"] == "contradicted"
    assert "No boundary was found: `n04` was bad and is good when run again (1 run)." in done.out
    assert "ask for more --runs" in done.out


def test_one_content_under_two_keys_is_one_step_unless_every_is_asked_for(double):
    entries = {f"n{i:02d}": {"contents": "old" if i < 3 else f"new{i // 6}"} for i in range(9)}
    done = double.write("gggbbbbbb", **entries).run()
    assert done.found["bad"] == 3
    reused = [step["label"] for step in done.steps if step["note"]]
    assert reused and all("same package content as n" in step["note"] for step in done.steps if step["label"] in reused and step["note"])
    assert not any(step["note"] for step in double.run("--every", out="p").steps)


def test_two_labels_of_one_key_are_one_step(double):
    entries = {f"n{i:02d}": {"key": f"sha256:{i // 4}"} for i in range(12)}
    done = double.write("g" * 8 + "b" * 4, **entries).run()
    assert (done.found["good"], done.found["bad"]) == (7, 8)
    assert len(done.steps) == 5


def test_the_plan_is_shown_and_nothing_is_run(double):
    done = double.write("g" * 7 + "b" * 5).run("--dry-run")
    assert "12 candidates, about 8 steps; each step runs 2 cases. Looks for the first bad one. Nothing was run." in done.out
    assert "| 11 | `n11` | `n11` | - | first, bad end |" in done.out and "- `bytes to pull`: 3.0 GiB" in done.out
    assert not (double.folder / "o").exists() and double.log("place") == []
    plan = json.loads(double.run("--dry-run", "--format", "json").out)
    assert plan["steps"] == 8 and plan["cases"] == ["top[context_len=64]@torch_eager", "top[context_len=128]@torch_eager"]
