"""What a bisect leaves when it is ended, and what it goes on with; text and kernels from outside."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvcheck.cli import bisect

from .bisect_range import THRESHOLD, WRONG


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
