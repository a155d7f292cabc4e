"""`kvcheck shrink` and `run --shrink`: the smallest case, its twin, and commands that really repeat both."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time

import pytest
import yaml

pytestmark = pytest.mark.timeout(600)  # agents that die or hang are started again, which takes seconds each
LONG = 500
"""Seconds that a command may take."""

FILE = """
schema: 1
name: big
op: paged_mqa_logits
providers: [torch_eager, "fault:wrong_past=100"]
fixed: {batch: 3, num_heads: 8, head_dim: 64, block_size: 16, next_n: 2, topk: 64}
axes:
  context_len: [64, 300]
"""

TOPK = """
schema: 1
name: top
op: topk_per_row
fixed: {topk: 2}
axes:
  context_len: [20, 44]
"""

KERNEL = """
import ctypes, time
import torch

def topk_per_row(logits, context_lens, *, topk, next_n, out, alloc):
    for row, length in enumerate(context_lens.tolist()):
        if length > 40:
            DO
        count = min(length, topk)
        out[row] = -1
        found = logits[row, :length].topk(count).indices if length > topk else torch.arange(length)
        out[row, :count] = found.int()
"""


def kernel(tmp_path, what):
    """A user's kernel that does something to requests of more than 40 tokens."""
    file = tmp_path / "mine.py"
    file.write_text(KERNEL.replace("DO", what))
    return f"./{file.name}"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder that holds a finished run, `r`, of a kernel that is wrong past 100 tokens."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "case.yaml").write_text(FILE)
    command = [sys.executable, "-m", "kvcheck.cli.main", "run", "case.yaml", "--out", "r", "--no-diagnosis", "--quiet"]
    assert subprocess.run(command, cwd=folder, capture_output=True, timeout=170, check=False).returncode == 1
    return folder


def repeated(kvcheck, command, folder):
    """The one row that a command prints as what repeats a case."""
    done = kvcheck(*shlex.split(command)[1:], "--out", folder, "--quiet")
    (row,) = done.run["cases"]
    return row


def test_the_smallest_case_and_its_twin_are_repeated_by_their_commands(kvcheck, finished, tmp_path):
    done = kvcheck("shrink", finished / "r", "big[context_len=300]", "--out", "s")
    assert done.code == 1, done.err
    found = json.loads((tmp_path / "s/shrunk.json").read_text())
    assert found["schema"] == "kvcheck.shrunk/1" and found["stopped_by"] is None and found["of"]["case"] == "big[context_len=300]"
    assert found["identity"] == {"verdict": "mismatch", "output": "logits", "check": "bound"}
    small, twin = found["smallest"], found["twin"]
    expected = {"batch": 1, "context_len": 101, "num_heads": 1, "head_dim": 16, "block_size": 1, "next_n": 1, "block_table": "contiguous"}
    assert {axis: small["params"][axis] for axis in expected} == expected
    assert small["params"]["nonzero_keys"] == [] and twin["axes"] == ["context_len"] and twin["params"]["context_len"] == 100
    assert small["row"]["diagnosis"], "the smallest case is diagnosed"
    for side, verdict in ((small, "mismatch"), (twin, "pass")):
        row = repeated(kvcheck, side["command"], f"again-{verdict}")
        assert row["verdict"] == verdict and row["params"] == side["params"]
        assert row["input_fingerprint"] == side["row"]["input_fingerprint"] and side["command"] in done.out
    assert "context_len" in done.out and "closest case that passes: context_len 100 instead of 101" in done.out


def test_a_run_shrinks_each_failure_once_and_keeps_it_in_the_row(kvcheck, case_file):
    done = kvcheck("run", case_file(FILE), "--shrink", "--out", "r", "--set", "context_len=64,200,300", "--no-diagnosis")
    shrunk = [row for row in done.run["cases"] if "shrunk" in row]
    assert [row["id"] for row in shrunk] == ["big[context_len=200]"], "the first of one identity"
    found = shrunk[0]["shrunk"]
    assert found["smallest"]["params"]["context_len"] == 101 and "params" not in found["smallest"]["row"]
    assert repeated(kvcheck, found["smallest"]["command"], "again")["verdict"] == "mismatch"
    assert "closest case that passes" in done.out
    assert [row["verdict"] for row in kvcheck("run", "r/shrunk/1.yaml", "--out", "both").run["cases"]] == ["mismatch", "pass"]


@pytest.mark.parametrize(
    ("what", "verdict", "words"),
    [("ctypes.memset(0, 0, 1)", "crash", "SIGSEGV"), ("raise IndexError('past the end')", "crash", "IndexError")],
)
def test_crashes_shrink_to_the_first_length_that_crashes(kvcheck, case_file, tmp_path, what, verdict, words):
    run = kvcheck("run", case_file(TOPK), "--provider", kernel(tmp_path, what), "--out", "r", "--no-diagnosis")
    (row,) = [row for row in run.run["cases"] if row["verdict"] != "pass"]
    done = kvcheck("shrink", "r", row["id"], "--out", "s", "--quiet", "--max-evaluations", "30", timeout=LONG)
    assert done.code == 1, done.err
    found = json.loads((tmp_path / "s/shrunk.json").read_text())
    assert found["identity"]["verdict"] == verdict and words in found["failure"]
    assert [found["smallest"]["params"][axis] for axis in ("context_len", "topk", "poison")] == [41, 1, "zero"]
    assert found["twin"]["params"]["context_len"] == 40


def test_a_hang_shrinks_within_little_time_a_case(kvcheck, case_file, tmp_path):
    provider = kernel(tmp_path, "time.sleep(3600)")
    run = kvcheck("run", case_file(TOPK), "--provider", provider, "--out", "r", "--no-diagnosis", "--timeout", "1")
    (row,) = [row for row in run.run["cases"] if row["verdict"] == "timeout"]
    done = kvcheck("shrink", "r", row["id"], "--out", "s", "--quiet", "--max-evaluations", "18", timeout=LONG)
    found = json.loads((tmp_path / "s/shrunk.json").read_text())
    assert done.code == 1 and found["smallest"]["row"]["verdict"] == "timeout" and found["smallest"]["params"]["context_len"] == 41
    assert found["evaluations"] <= 18


def test_what_a_case_asked_for_is_asked_for_again(kvcheck, case_file, tmp_path):
    text = FILE.replace("axes:", "repeat: 2\nrelations: [page_permutation]\nseed: 5\naxes:")
    run = kvcheck("run", case_file(text), "--out", "r", "--provider", "fault:wrong_past=100", "--no-diagnosis")
    row = run.run["cases"][1]
    assert row["asked"] == {"repeat": 2, "relations": ["page_permutation"]}
    kvcheck("shrink", "r", row["id"], "--out", "s", "--quiet", "--max-evaluations", "5")
    found = json.loads((tmp_path / "s/shrunk.json").read_text())
    assert found["request"] == {"seed": 5, **row["asked"]} and found["stopped_by"] == "evaluations"
    file = yaml.safe_load((tmp_path / "s/shrunk.yaml").read_text())
    assert (file["repeat"], file["relations"], file["seed"]) == (2, ["page_permutation"], 5)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("r", "big[context_len=301]"), 2, "nearest: big[context_len=300]"),
        (("r", "big[context_len=64]"), 2, "whose verdict is pass"),
        (("nowhere", "big[context_len=300]"), 2, "expected a folder that holds a run.json"),
        (("r", "big[context_len=300]", "--format", "xml"), 2, "expected table or json"),
        (("r", "big[context_len=300]", "--out", "r"), 2, "expected a new or empty folder"),
        (("r", "big[context_len=300]", "--device", "gpu"), 2, "--device: expected"),
    ],
)
def test_what_cannot_be_shrunk_is_said(kvcheck, finished, words, code, said):
    done = kvcheck("shrink", *words, cwd=finished)
    assert done.code == code and said in done.err and "Traceback" not in done.err


def test_a_failure_that_does_not_repeat_is_no_failure_to_shrink(kvcheck, case_file, tmp_path):
    provider = kernel(tmp_path, "raise IndexError('past the end')")
    run = kvcheck("run", case_file(TOPK), "--provider", provider, "--out", "r", "--no-diagnosis")
    row = next(row for row in run.run["cases"] if row["verdict"] == "crash")
    kernel(tmp_path, "pass")
    done = kvcheck("shrink", "r", row["id"], "--out", "s")
    assert done.code == 3 and "does not repeat" in done.err and "IndexError" in done.err


def test_an_interrupted_search_leaves_what_it_found(kvcheck, case_file, tmp_path):
    provider = kernel(tmp_path, "time.sleep(0.3); raise IndexError('past the end')")
    run = kvcheck("run", case_file(TOPK), "--provider", provider, "--out", "r", "--no-diagnosis")
    row = next(row for row in run.run["cases"] if row["verdict"] == "crash")
    command = [sys.executable, "-m", "kvcheck.cli.main", "shrink", "r", row["id"], "--out", "s"]
    started = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        time.sleep(8)
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=60)
    finally:
        started.kill()
    if (tmp_path / "s/shrunk.json").is_file():  # else it was interrupted before its first case was judged, or had ended
        found = json.loads((tmp_path / "s/shrunk.json").read_text())
        assert found["stopped_by"] in ("interrupt", None) and started.returncode in (130, 1), err
    else:
        assert started.returncode == 130 and "Traceback" not in err
