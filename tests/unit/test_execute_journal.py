"""A journal outlives the run that wrote it: nothing judged is judged again, nothing is lost, and nothing foreign is continued."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kvcheck.cases.model import Case
from kvcheck.execute.errors import JournalError
from kvcheck.execute.journal import Journal, key, plan_hash

CASE = Case(id="c[topk=8]", case_file="c", op="topk_per_row", provider="triton", params={"topk": 8}, seed=1)
PASS, ERROR = {"verdict": "pass", "message": ""}, {"verdict": "harness_error", "message": "no agent"}


def reopened(path, plan="p", resume=True):
    journal = Journal(path, plan, resume)
    journal.close()
    return journal


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "run" / "journal.jsonl"
    journal = Journal(path, "p")
    journal.add(CASE, PASS)
    journal.close()
    return path


def test_what_was_judged_is_there_again(path):
    assert reopened(path).get(CASE) == PASS


@pytest.mark.parametrize(
    "change", [{"id": "d"}, {"provider": "aiter"}, {"seed": 2}, {"params": {"topk": 9}}, {"precision": "fp32_any"}, {"repeat": 3}]
)
def test_another_case_is_not_mistaken_for_it(path, change):
    assert reopened(path).get(replace(CASE, **change)) is None
    assert key(replace(CASE, **change)) != key(CASE)


def test_what_the_harness_failed_at_is_run_again(path):
    other = replace(CASE, id="other")
    journal = Journal(path, "p", resume=True)
    journal.add(other, ERROR)
    assert journal.get(other) is None
    journal.add(other, PASS)
    journal.close()
    assert reopened(path).get(other) == PASS


@pytest.mark.parametrize("torn", [b'{"key":"x","ro', b'{"key":"x","row":{"verdict":"pass"}}', b"\xff\xfe"])
def test_a_torn_last_line_is_dropped_and_the_file_goes_on_whole(path, torn):
    with path.open("ab") as file:
        file.write(torn)
    journal = Journal(path, "p", resume=True)
    assert journal.get(CASE) == PASS
    journal.add(replace(CASE, id="other"), PASS)
    journal.close()
    assert [json.loads(line) for line in path.read_bytes().splitlines()]
    assert len(reopened(path)) == 2


def test_a_header_torn_off_is_an_empty_journal(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"jour')
    assert len(reopened(path, resume=False)) == 0
    assert len(reopened(path)) == 0


def test_damage_in_the_middle_is_named(path):
    with path.open("ab") as file:
        file.write(b"garbage\n")
    with pytest.raises(JournalError, match=r"journal.jsonl:3 is damaged"):
        reopened(path)


def test_another_plans_journal_is_not_continued(path):
    with pytest.raises(JournalError, match="another plan") as caught:
        reopened(path, plan="q")
    assert caught.value.exit_code == 2


def test_two_runs_do_not_write_one_journal(path):
    first = Journal(path, "p", resume=True)
    with pytest.raises(JournalError, match="in use"):
        Journal(path, "p", resume=True)
    first.close()
    assert reopened(path).get(CASE)


def test_a_plans_hash_does_not_depend_on_the_order_of_keys():
    assert plan_hash({"a": 1, "b": [1, 2]}) == plan_hash({"b": [1, 2], "a": 1})
    assert plan_hash({"a": 1}) != plan_hash({"a": 2})
