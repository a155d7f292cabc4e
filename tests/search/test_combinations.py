"""Which points of the other axes a threshold is searched at."""

from __future__ import annotations

import pytest

from kvcheck.search.combinations import TooManyCombinations, combinations

AXES = {"num_heads": [32, 64], "block_size": [1, 16, 64], "next_n": [1]}


def test_at_settles_every_axis():
    at = {"block_size": 1, "num_heads": 8, "next_n": 1, "batch": 2}
    assert combinations(AXES, at) == [{"num_heads": 8, "block_size": 1, "next_n": 1, "batch": 2}]
    assert list(combinations(AXES, at)[0]) == ["num_heads", "block_size", "next_n", "batch"]


def test_axes_that_at_leaves_out_are_combined():
    assert combinations(AXES, {"block_size": 16}) == [
        {"num_heads": 32, "block_size": 16, "next_n": 1},
        {"num_heads": 64, "block_size": 16, "next_n": 1},
    ]


def test_more_than_four_are_refused_unless_asked_for():
    with pytest.raises(TooManyCombinations, match=r"6 combinations .*num_heads 2 x block_size 3.*--all"):
        combinations(AXES)
    assert len(combinations(AXES, every=True)) == 6


def test_no_other_axes_is_one_search():
    assert combinations({}) == [{}]
