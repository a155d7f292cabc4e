"""`kvcheck threshold` and the threshold block: the exact flip, whatever k is."""

from __future__ import annotations

import pytest

FILE = """
schema: 1
name: flip
op: paged_mqa_logits
providers: [torch_eager]
fixed: {num_heads: 8, head_dim: 32, block_size: 16, topk: 2048, max_model_len: 4096}
axes:
  context_len: [64]
threshold: {axis: context_len, range: [1, 4096]}
"""


@pytest.mark.parametrize("topk", [2048, 64])
def test_wrong_past_2048_flips_at_2048_to_2049(kvcheck, case_file, topk):
    done = kvcheck("threshold", case_file(FILE), "--provider", "fault:wrong_past=2048", "--set", f"topk={topk}", "--out", "r")
    assert done.code == 1, done.err
    (found,) = done.run["thresholds"]
    assert found["flips"] == [{"last_pass": 2048, "first_fail": 2049, "direction": "pass_to_fail"}]
    assert found["monotonic"] is True and found["trivial_below"] == topk and found["provider"] == "fault:wrong_past=2048"
    assert found["evaluations"] == len(done.run["cases"]) <= 80
    assert "2048" in done.out and "2049" in done.out


@pytest.mark.parametrize("topk", [2048, 64])
def test_an_island_is_two_flips(kvcheck, case_file, topk):
    done = kvcheck("run", case_file(FILE), "--provider", "fault:wrong_between=1537-1600", "--set", f"topk={topk}", "--out", "r")
    (found,) = done.run["thresholds"]
    assert done.code == 1 and found["monotonic"] is False
    assert found["flips"] == [
        {"last_pass": 1536, "first_fail": 1537, "direction": "pass_to_fail"},
        {"last_pass": 1601, "first_fail": 1600, "direction": "fail_to_pass"},
    ]


def test_an_honest_kernel_has_no_flip_and_says_what_was_not_looked_into(kvcheck, case_file):
    done = kvcheck("threshold", case_file(FILE), "--range", "1", "1000", "--out", "r")
    (found,) = done.run["thresholds"]
    assert done.code == 0 and found["flips"] == [] and 0 < found["widest_gap"] < 1000
    assert "no flip" in done.out


def test_combinations_are_refused_past_four(kvcheck, case_file):
    file = case_file(FILE.replace("axes:\n", "axes:\n  block_table: [contiguous, shuffled, reversed, wide_zero, fragmented]\n"))
    done = kvcheck("threshold", file)
    assert done.code == 2 and "--all" in done.err


def test_a_points_command_repeats_it(kvcheck, case_file):
    import shlex

    done = kvcheck("threshold", case_file(FILE), "--provider", "fault:wrong_past=2048", "--out", "r")
    row = next(row for row in done.run["cases"] if row["params"]["context_len"] == 2049)
    again = kvcheck(*shlex.split(row["repro"])[1:], "--out", "again")
    assert again.code == 1 and [r["id"] for r in again.run["cases"]] == [row["id"]]
