"""Where wrong elements lie: every wrong element is covered, and a failing row stays small whatever is wrong."""

from __future__ import annotations

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.agent.inputs.bundle import Inputs
from kvcheck.agent.judge import spread
from kvcheck.agent.judge.evidence import Evidence


def read(text):
    """Runs of text as (first, last, held)."""
    found = []
    for word in text.split():
        ends, _, count = word.partition("/")
        first, _, last = ends.partition("-")
        low, high = int(first), int(last or first)
        found.append((low, high, int(count) if count else high - low + 1))
    return found


def logits(lengths, width, block_size=None, table=None, pool=0):
    """Evidence of rows of logits."""
    tensors = {} if table is None else {"block_table": torch.tensor(table, dtype=torch.int32), "kv_cache": torch.zeros(pool, 1)}
    inputs = Inputs(tensors, {}, {"logits": ((len(lengths), width), torch.float32)}, torch.tensor(lengths), block_size=block_size)
    zeros = torch.zeros(len(lengths), width)
    return Evidence("logits", {"next_n": 1}, inputs, tensors, {}, None, zeros, zeros.double(), None, torch.tensor(lengths))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.booleans(), max_size=200), st.integers(1, 9))
def test_runs_cover_what_is_true_and_nothing_else_at_their_ends(bits, limit):
    mask = torch.tensor(bits, dtype=torch.bool)
    found = read(spread.runs(mask, limit))
    true = set(mask.nonzero().flatten().tolist())
    assert len(found) <= limit and sum(held for *_, held in found) == len(true)
    assert {at for first, last, _ in found for at in range(first, last + 1)} >= true
    for first, last, held in found:
        assert first in true and last in true and held == len(true & set(range(first, last + 1)))
    assert all(one[1] < other[0] - 1 for one, other in zip(found, found[1:], strict=False))


def test_the_widest_gaps_stay():
    mask = torch.zeros(100, dtype=torch.bool)
    mask[[0, 2, 4, 50, 52, 90]] = True
    assert spread.runs(mask, 3) == "0-4/3 50-52/2 90"
    assert spread.runs(mask, 2) == "0-4/3 50-90/3"


def test_rows_that_are_wrong_alike_are_one_line():
    bad = torch.zeros(6, 40, dtype=torch.bool)
    bad[1:4, 8:16] = True
    bad[5, 39] = True
    found = spread.wrong(logits([30, 30, 30, 30, 30, 40], 40), bad)
    assert found["axes"] == ["row", "position"] and found["shape"] == [6, 40] and found["more_rows"] == 0
    assert found["rows"] == [
        {"rows": "1-3", "wrong": "8-15", "inside": "0-29"},
        {"rows": "5", "wrong": "39", "inside": "0-39"},
    ]
    assert "blocks" not in found


def test_pages_are_the_pool_s_and_those_past_a_row_s_end_are_nobody_s():
    bad = torch.zeros(2, 8, dtype=torch.bool)
    bad[0, 2], bad[1, 7] = True, True
    found = spread.wrong(logits([4, 3], 8, 2, [[5, 7, -1, -1], [9, 1, -1, -1]], pool=12), bad)
    assert (found["block_size"], found["pool"]) == (2, 12)
    assert found["blocks"] == "7", "row 1 has two pages, and position 7 is in neither"
    assert found["used"] == "1 5 7 9"


@pytest.mark.parametrize("share", [0.5, 0.02, 1.0])
def test_a_row_stays_small(share):
    generator = torch.Generator().manual_seed(1)
    bad = torch.rand(300, 20_000, generator=generator) < share
    table = torch.stack([torch.randperm(20_000, generator=generator) for _ in range(300)]).tolist()
    found = spread.wrong(logits([20_000] * 300, 20_000, 1, table, 20_000), bad)
    assert len(json.dumps(found)) < 5000
    named = sum(len(range(*(int(end) + at for at, end in enumerate((line["rows"].split("-") * 2)[:2])))) for line in found["rows"])
    assert named + found["more_rows"] == 300


def test_heads_are_the_columns_of_an_attention_output():
    inputs = Inputs({}, {}, {"out": ((2, 1, 4, 8), torch.float32)}, axes={"out": ("request", "query token", "head", "dim")})
    zeros = torch.zeros(2, 1, 4, 8)
    bad = torch.zeros(2, 1, 4, 8, dtype=torch.bool)
    bad[1, 0, 2, 5] = True
    found = spread.wrong(Evidence("out", {}, inputs, {}, {}, None, zeros, zeros.double(), None), bad)
    assert found["axes"] == ["request, query token", "head"] and found["shape"] == [2, 4]
    assert found["rows"] == [{"rows": "1", "wrong": "2", "inside": "0-3"}]


FAULTS = (
    ("paged_mqa_logits", "fault:wrong_past=10", dict(context_len=40, block_size=16), "logits", "bound"),
    ("paged_mqa_logits", "fault:mask_off_by_one", dict(context_len=40, block_size=16), "logits", "finite_mask"),
    ("index_k_cache_write", "fault:tokens_unwritten", {}, "kv_cache", "cache_written"),
    ("mla_decode", "fault:rope_dropped", {}, "out", "bound_values"),
)


@pytest.mark.parametrize(("op", "fault", "params", "output", "check"), FAULTS, ids=[f"{row[0]}-{row[4]}" for row in FAULTS])
def test_a_failing_row_says_where(judged, op, fault, params, output, check):
    row = judged(op, fault, **params)
    assert (row["check"], row["wrong"]["output"]) == (check, output), row["message"]
    first = row["wrong"]["rows"][0]
    column = row["first_bad"].get("position")
    if output == "logits":
        assert read(first["wrong"])[0][0] == column and first["rows"].split("-")[0] == str(row["first_bad"]["row"])
        assert row["wrong"]["block_size"] == 16
    assert read(first["wrong"]) and first["inside"] if output != "kv_cache" else row["wrong"]["blocks"]


def test_a_passing_row_has_nothing_of_it(judged):
    assert "wrong" not in judged("paged_mqa_logits", context_len=40)


def test_a_wrong_selection_names_what_was_taken_and_what_was_left():
    from kvcheck.agent.judge.topk import topk_of_logits

    evidence = logits([6], 6, 2, [[3, 1, 0]], pool=4)
    evidence.case["topk"] = 2
    evidence.expected = torch.tensor([[9.0, 8, 1, 2, 3, 4]], dtype=torch.float64)
    evidence.actual = torch.tensor([[9.0, 0, 1, 2, 3, 8]])
    evidence.bound = torch.full((1, 6), 0.1, dtype=torch.float64)
    found = topk_of_logits(evidence).wrong
    assert found["rows"] == [{"rows": "0", "wrong": "1 5", "inside": "0-5"}] and found["output"] == "topk_positions"
    assert found["blocks"] == "0 3"


def test_slots_name_tokens_and_manager_blocks():
    from kvcheck.agent.judge.slots import slots

    table = torch.tensor([[4, 6]])
    tensors = {"block_table": table, "request_ids": torch.tensor([0, 0, -1]), "positions": torch.tensor([1, 5, 0])}
    inputs = Inputs(tensors, {"manager_block_size": 4, "tokens_per_state": 1}, {"slots": ((3,), torch.int64)}, axes={"slots": ("token",)})
    sides = [torch.tensor([17, 25, -1]), torch.tensor([17, 9, -1])]
    evidence = Evidence("slots", {}, inputs, tensors, {}, None, sides[1], sides[0], None)
    found = slots(evidence).wrong
    assert found["rows"][0]["wrong"] == "1" and found["axes"] == ["", "token"]
    assert (found["blocks"], found["used"]) == ("6", "4 6")
    assert isinstance(found["shape"], list) and found["pool"] is None
