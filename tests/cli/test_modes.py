"""What a case is run in: variables of the environment, new processes, graphs where there are any."""

from __future__ import annotations

from pathlib import Path

import pytest

PLANTED = Path(__file__).resolve().parents[1] / "planted" / "modes.py"
CASE = """\
schema: 1
name: small
op: paged_mqa_logits
providers: [torch_eager]
fixed: {batch: 1, num_heads: 2, block_size: 16, topk: 16, max_model_len: 256, context_len: 33}
"""


def test_variables_reach_the_kernel_and_are_named_in_the_id(kvcheck, case_file):
    file = case_file(CASE + "env: {PLANTED_SWITCH: [null, fine, broken]}\n")
    done = kvcheck("run", file, "--provider", PLANTED, "--out", "out", env={"PLANTED_SWITCH": "broken"})
    verdicts = {row["id"]: row["verdict"] for row in done.run["cases"]}
    ids = {value: f"small[env.PLANTED_SWITCH={value}]" for value in ("null", "fine", "broken")}
    assert verdicts == {ids["null"]: "pass", ids["fine"]: "pass", ids["broken"]: "mismatch"}
    again = kvcheck("run", file, "--provider", PLANTED, "--set", "env.PLANTED_SWITCH=broken", "--out", "again")
    assert [row["verdict"] for row in again.run["cases"]] == ["mismatch"]


@pytest.mark.parametrize(
    ("section", "text"), [("env: {A B: 1}", "env.A B: expected the name of a variable"), ("env: {A: [true]}", "got true")]
)
def test_what_is_no_variable_is_refused(kvcheck, case_file, section, text):
    done = kvcheck("run", case_file(CASE + section + "\n"))
    assert done.code == 2 and text in done.err


def test_a_fault_in_one_of_three_new_processes_is_found_and_counted(kvcheck, case_file, tmp_path):
    words = ["run", case_file(CASE), "--provider", PLANTED, "--fresh", 3, "--jobs", 1]
    done = kvcheck(*words, "--out", "bad", env={"PLANTED_LOG": str(tmp_path / "log")})
    (row,) = done.run["cases"]
    assert (done.code, row["verdict"]) == (1, "mismatch")
    assert row["message"].startswith("in 1 of 3 new processes: ")
    assert row["repeats"] == {"processes": 3, "failing_processes": 1, "calls": 3, "excluded_rate": None}
    assert len(set((tmp_path / "log").read_text().split())) == 3


def test_new_processes_that_agree_say_what_that_excludes(kvcheck, case_file):
    done = kvcheck("run", case_file(CASE), "--fresh", 2, "--out", "good")
    (row,) = done.run["cases"]
    assert (done.code, row["verdict"], row["repeats"]["processes"]) == (0, "pass", 2)
    assert row["repeats"]["excluded_rate"] == pytest.approx(1 - 0.05**0.5)
    assert "a fault that shows in more than 77.6 % of processes would have been seen (95 % confidence)" in done.out
    assert "--fresh 2" in row["repro"]


def test_a_graph_needs_a_gpu(kvcheck, case_file):
    done = kvcheck("run", case_file(CASE), "--set", "launch=eager,graph", "--device", "cpu", "--out", "out")
    assert [row["verdict"] for row in done.run["cases"]] == ["pass", "unsupported"]
    assert "there are no graphs on cpu" in done.run["cases"][1]["message"]
