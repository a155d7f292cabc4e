"""`kvcheck bisect` over a range that is written down, its agents played by a double: what is found, what is said, what survives."""

from __future__ import annotations

import errno
import functools
import importlib.util
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvcheck.cli import bisect

DOUBLE = Path(__file__).parents[1] / "planted" / "bisect_double.py"
CASE = """
schema: 1
name: top
op: topk_per_row
providers: [torch_eager]
fixed: {batch: 1, topk: 8}
axes: {context_len: [64, 128]}
"""
THRESHOLD = CASE + "threshold: {axis: context_len, range: [1, 128]}\n"
WRONG = ["load", "inputs", "kernel", "verdict:mismatch"]
OTHER = ["kernel", "verdict:nonfinite"]


class Range:
    """A range in a file, and `kvcheck bisect double` over it."""

    def __init__(self, folder, patch, capture):
        self.folder, self.file, self.patch, self.capture = folder, folder / "range.json", patch, capture
        (folder / "case.yaml").write_text(CASE)

    def write(self, text, **special):
        """g and b by letter; `special` replaces entries by label."""
        entries = [{"label": f"n{i:02d}", "act": WRONG if letter == "b" else []} for i, letter in enumerate(text)]
        self.entries = [{**entry, **special.get(entry["label"], {})} for entry in entries]
        self.file.write_text(json.dumps(self.entries))
        return self

    def words(self, *more, out="o", good=None, bad=None):
        ends = ["--good", good or self.entries[0]["label"], "--bad", bad or self.entries[-1]["label"]]
        return [sys.executable, str(DOUBLE), "bisect", "double", "range.json", "case.yaml", *ends, "--out", out, "--timeout", "20", *more]

    def run(self, *more, code=0, **options):
        """The command in this process: what a process takes to start is more than the bisect itself."""
        words = self.words(*more, **options)[2:]
        self.patch.chdir(self.folder)
        self.patch.setattr(sys, "argv", ["kvcheck", *words])
        self.capture.readouterr()
        handler = signal.getsignal(signal.SIGTERM)
        try:
            ended = double_module().main.app(words, standalone_mode=False)
        finally:
            signal.signal(signal.SIGTERM, handler)
        out, err = self.capture.readouterr()
        assert (ended or 0) == code, (out, err)
        return self.result(SimpleNamespace(stdout=out, stderr=err), options.get("out", "o"))

    def result(self, done, out="o"):
        state = self.folder / out / "bisect.json"
        data = json.loads(state.read_text()) if state.is_file() else None
        found = (data or {}).get("result") or {}
        return SimpleNamespace(out=done.stdout, err=done.stderr, data=data, found=found, steps=(data or {}).get("steps", []))

    def log(self, word):
        return [line.split()[1] for line in Path(f"{self.file}.log").read_text().splitlines() if line.startswith(word + " ")]


@functools.cache
def double_module():
    """`kvcheck` with the command that walks a written range."""
    spec = importlib.util.spec_from_file_location("bisect_double", DOUBLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def double(tmp_path, monkeypatch, capsys):
    return Range(tmp_path, monkeypatch, capsys)


def asked(done):
    return [(step["label"], step["why"], step["kind"]) for step in done.steps]


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


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_bisect_that_was_ended_goes_on_where_it_was(double, how):
    double.write("g" * 7 + "b" * 5, n08={"act": WRONG, "sleep": 2.0})
    process = subprocess.Popen(double.words(), cwd=double.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: Path(f"{double.file}.log").exists() and "n08" in double.log("place"))
        process.send_signal(how)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
    state = json.loads((double.folder / "o" / "bisect.json").read_text())
    assert state["running"]["label"] == "n08" and [step["label"] for step in state["steps"]] == ["n11", "n00", "n05"]
    if how == signal.SIGINT:
        assert process.returncode == 130 and "go on with: kvcheck bisect resume o" in said
    done = double.run("--resume")
    assert done.found["bad"] == 7 and len(done.steps) == 8
    assert double.log("place") == ["n11", "n00", "n05", "n08", "n08", "n06", "n07", "n07", "n06"]
    assert Path(f"{double.file}.log").read_text().count("candidates") == 1


def test_two_cannot_work_on_one_bisect(double):
    double.write("g" * 7 + "b" * 5, n08={"act": WRONG, "sleep": 3.0})
    process = subprocess.Popen(double.words(), cwd=double.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: Path(f"{double.file}.log").exists() and "n08" in double.log("place"))
        assert "is in use by another kvcheck bisect" in double.run("--resume", code=2).err
    finally:
        process.kill()
        process.wait()


def test_a_full_disk_leaves_a_state_that_goes_on(double):
    full = double.write("gggggbb", n03={"raises": errno.ENOSPC}).run(code=3)
    assert "the disk is full" in full.err and "kvcheck bisect resume o" in full.err
    assert [step["label"] for step in full.steps] == ["n06", "n00"] and full.data["result"] is None
    done = double.write("gggggbb").run("--resume")
    assert done.found["bad"] == 5 and double.log("place").count("n06") == 1


def test_what_had_no_answer_is_asked_again_when_it_is_resumed(double):
    double.write("ggggbbb", n03={"unavailable": "the registry does not answer"}).run(code=3)
    done = double.write("ggggbbb").run("--resume")
    assert (done.found["outcome"], done.found["bad"]) == ("found", 4)
    assert "registry" not in done.out
    assert double.log("place").count("n06") == 1


def test_a_bisect_that_has_ended_says_again_what_it_found(double):
    first = double.write("gggbb").run()
    places = double.log("place")
    assert double.run("--resume").out == first.out
    assert double.log("place") == places


def test_answers_to_other_cases_are_not_taken(double):
    double.write("gggbb").run("--only", "top[context_len=64]", code=0)
    state = double.folder / "o" / "bisect.json"
    data = json.loads(state.read_text())
    state.write_text(json.dumps({**data, "result": None}))
    done = double.run("--resume")
    assert "--only" in data["words"] and "--only" not in done.data["words"] and "--resume" not in done.data["words"]
    assert "of another kvcheck, are kept in steps/ and were not used" in done.out
    assert double.log("place").count("n04") == 2


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--find", "fixes"], "--find: expected regression or fix, got 'fixes'; nearest: fix"),
        (["--format", "html"], "--format: expected markdown, json, got 'html'"),
        (["--device", "gfx950"], "--device: expected auto"),
        (["--only", "top[context_len=65]"], "nearest: top[context_len=64]"),
        (["--resume"], "expected a folder with a bisect that was begun, got o"),
    ],
)
def test_a_command_line_that_cannot_be_followed_is_2_and_leaves_nothing(double, more, says):
    done = double.write("gggbb").run(*more, code=2)
    assert says in done.err, done.err
    assert not (double.folder / "o").exists()


def test_an_end_that_is_not_there_is_2_and_leaves_nothing(double):
    done = double.write("gggbb").run(code=2, good="n99")
    assert "expected one of n00, n01, n02, n03, n04, got 'n99'" in done.err
    assert not (double.folder / "o").exists()


def test_another_bisect_is_not_gone_on_with(double):
    double.write("gggbb").run()
    assert "holds a bisect with find 'regression', this command has 'fix'" in double.run("--resume", "--find", "fix", code=2).err
    assert "expected a new or empty folder" in double.run(code=2).err


def test_the_flip_at_the_first_bad_one_is_told_where_the_case_names_an_axis(double):
    double.write("gggbb", n03={"act": {"top[context_len=64]": WRONG}}, n04={"act": {"top[context_len=64]": WRONG}})
    (double.folder / "case.yaml").write_text(THRESHOLD)
    done = double.run()
    (step,) = [step for step in done.steps if step.get("thresholds")]
    assert (step["label"], step["why"]) == ("n03", "again")
    assert [(flip["last_pass"], flip["first_fail"]) for flip in step["thresholds"][0]["flips"]] == [(63, 64), (65, 64)]
    assert "- `torch_eager`" in done.out and "64" in done.out
    assert not any(step.get("thresholds") for step in double.run("--no-threshold", out="p").steps)


def test_what_the_target_wants_to_know_more_is_tried_once_and_told(double):
    done = double.write("gggbb").run("--swap")
    assert "### `Swapped package *double*`" in done.out
    assert "| `n02 with n03's package` | bad |" in done.out
    assert "The package is the culprit: ['bad', 'bad', 'good']." in done.out
    assert double.log("place").count("n03") == 3


def test_text_from_outside_stays_text(double):
    evil = "\x1b[2Jnight|`<img src=x>`@everyone\n# head"
    entries = [*double.write("gggb").entries[:3], {"label": evil, "key": "k", "act": WRONG}, {"label": "last", "act": WRONG}]
    double.entries = entries
    double.file.write_text(json.dumps(entries))
    done = double.run()
    assert done.found["bad"] == 3 and "\x1b" not in done.out + done.err
    outside = done.out.split("```")[0::2]  # the command that repeats it holds the name as it is, in a fence
    assert not any("\n# head" in part for part in outside) and "``night|`<img src=x>`@everyone # head``" in done.out


def test_json_is_the_state(double):
    done = double.write("gggbb").run("--format", "json", "-q")
    assert json.loads(done.out) == done.data and done.err == ""


@pytest.fixture
def no_handlers(monkeypatch):
    """A command takes SIGTERM for Ctrl-C; the process of the tests does not."""
    monkeypatch.setattr("kvcheck.cli.common.signal.signal", lambda *_: None)


def test_resume_starts_the_command_again_where_it_was_typed(tmp_path, monkeypatch, no_handlers):
    there, out = tmp_path / "there", tmp_path / "out"
    there.mkdir()
    out.mkdir()
    data = {"schema": "kvcheck.bisect/1", "words": ["bisect", "git", "D"], "cwd": str(there)}
    (out / "bisect.json").write_text(json.dumps(data))
    monkeypatch.chdir(tmp_path)
    started = []
    monkeypatch.setattr(bisect.os, "execv", lambda program, words: started.append((program, words, bisect.os.getcwd())))
    bisect.app(["resume", "out"], standalone_mode=False)
    words = [sys.executable, "-m", "kvcheck.cli.main", "bisect", "git", "D", "--out", str(out), "--resume"]
    assert started == [(sys.executable, words, str(there))]


@pytest.mark.parametrize("text", [None, "{", '{"schema": "kvcheck.run/1"}', "[]"])
def test_what_is_no_bisect_is_not_gone_on_with(tmp_path, text, capsys, no_handlers):
    if text is not None:
        (tmp_path / "bisect.json").write_text(text)
    assert bisect.app(["resume", str(tmp_path)], standalone_mode=False) == 2
    assert capsys.readouterr().err.startswith("kvcheck: OUT: expected a")


KERNEL = """
import torch

{top}

def topk_per_row(logits, context_lens, *, topk, next_n, out, alloc):
    for row in range(out.shape[0]):
        length = max(int(context_lens[row // next_n]) - next_n + 1 + row % next_n, 0)
        out[row] = -1
        chosen = torch.arange(length) if length <= topk else logits[row, :length].topk(topk).indices
        out[row, : len(chosen)] = chosen.int()
{bottom}
"""


@pytest.mark.timeout(400)  # six agents with torch, on a machine that may be busy
def test_real_kernels_are_told_apart_and_what_cannot_be_loaded_is_stepped_over(double):
    entries = []
    for i, name in enumerate(("honest", "honest", "import", "honest", "wrong")):
        file = double.folder / f"k{i}.py"
        top = "import no_such_package" if name == "import" else ""
        file.write_text(KERNEL.format(top=top, bottom="    out[:, 0] = -1\n" if name == "wrong" else ""))
        entries.append({"label": f"{i}-{name}", "providers": [str(file)]})
    double.entries = entries
    double.file.write_text(json.dumps(entries))
    done = double.run("--only", "top[context_len=64]", "--device", "cpu")
    assert (done.found["good"], done.found["bad"], len(done.steps)) == (3, 4, 6)
    kinds = {step["label"]: (step["kind"], step["reason"]) for step in done.steps}
    assert kinds["2-import"][0] == "unknown" and "No module named 'no_such_package'" in kinds["2-import"][1]
    assert done.found["sought"]["identity"][0] == "wrong_topk"
    assert done.found["sought"]["probes"] == ["top[context_len=64]@provider 1"]
    assert "WRONG_TOPK" in done.out
    assert Path(done.found["evidence"]["provider"]).name == "k4.py"
