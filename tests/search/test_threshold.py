"""The threshold search on predicates whose answer is known."""

from __future__ import annotations

import random

import pytest

from kvcheck.search.threshold import find_flips, grid, grid_boundaries

BOUNDARIES = grid_boundaries(["topk", "block_size", 64, 256], {"topk": 2048, "block_size": 64})


def search(passes, low=1, high=16384, boundaries=BOUNDARIES, **options):
    return find_flips(lambda n: "pass" if passes(n) else "fail", low, high, boundaries=boundaries, **options)


def edges(result):
    return [(flip.last_pass, flip.first_fail) for flip in result.flips]


def test_grid_holds_ends_powers_and_boundaries_clipped_to_the_range():
    assert grid(5, 100, [64, 300]) == [5, 7, 8, 9, 13, 16, 17, 25, 32, 33, 49, 63, 64, 65, 97, 100]


def test_no_flip_says_how_much_was_not_looked_into():
    result = search(lambda n: True)
    assert result.flips == []
    assert (result.monotonic, result.widest_gap, result.passes, result.fails) == (True, 4095, result.evaluations, 0)


@pytest.mark.parametrize("limit", [1, 63, 64, 2047, 2048, 2049, 16383])
@pytest.mark.parametrize("passing_first", [True, False])
def test_one_flip_is_closed_to_neighbours(limit, passing_first):
    result = search(lambda n: (n <= limit) == passing_first)
    assert edges(result) == [(limit, limit + 1) if passing_first else (limit + 1, limit)]
    assert result.flips[0].direction == ("pass_to_fail" if passing_first else "fail_to_pass")
    assert result.monotonic


def test_one_flip_in_two_hundred_thousand_takes_at_most_eighty_evaluations():
    points = grid(1, 200_000, BOUNDARIES)
    drawn = random.Random(0).sample(range(1, 200_000), 300)
    worst = 0
    for limit in [*points[:-1], *(point - 1 for point in points[1:]), *(point + 1 for point in points[:-2]), *drawn]:
        result = search(lambda n, limit=limit: n <= limit, high=200_000)
        assert edges(result) == [(limit, limit + 1)]
        worst = max(worst, result.evaluations)
    assert worst <= 80


def test_an_island_is_two_flips():
    result = search(lambda n: not 1537 <= n <= 1600)
    assert edges(result) == [(1536, 1537), (1601, 1600)]
    assert [flip.direction for flip in result.flips] == ["pass_to_fail", "fail_to_pass"]
    assert (result.monotonic, result.period) == (False, None)


@pytest.mark.parametrize(
    ("passes", "period"),
    [
        (lambda n: n % 64 == 0, 64),
        (lambda n: n % 64 != 0, 64),
        (lambda n: n % 256 != 1, 256),
        (lambda n: n <= 2048 or n % 64 == 0, 64),
        (lambda n: n > 9 and n % 64 != 0, 64),
        (lambda n: n % 3 == 0, 3),
        (lambda n: n % 2 == 0, 2),
        (lambda n: n % 256 < 128, 256),
        (lambda n: n & (n - 1) != 0, None),
        (lambda n: n not in (128, 192, 4096), None),
    ],
)
def test_period_is_named_only_when_it_holds(passes, period):
    result = search(passes)
    assert len(result.flips) >= 3
    assert result.period == period
    assert all(passes(flip.last_pass) and not passes(flip.first_fail) for flip in result.flips)
    assert result.evaluations <= 130


def test_an_island_at_a_boundary_is_looked_for_at_its_multiples():
    assert search(lambda n: n % 48 != 0, boundaries=[48]).period == 48
    assert search(lambda n: n != 48, boundaries=[48]).period is None


def test_period_from_two_repeats_is_checked_beyond_them():
    result = search(lambda n: n % 64 == 0, high=200)
    assert result.period == 64
    assert (192, 191) in edges(result)


def test_evaluations_are_counted_once_a_point():
    calls = []

    def judge(n):
        calls.append(n)
        return "pass" if n % 64 == 0 else "fail"

    result = find_flips(judge, 1, 16384, boundaries=BOUNDARIES)
    assert len(calls) == len(set(calls)) == result.evaluations == result.passes + result.fails


def test_batches_give_the_same_answer_in_fewer_rounds():
    batches = []

    def judge_many(points):
        batches.append(points)
        return ["pass" if not 700 <= n <= 5000 else "fail" for n in points]

    result = find_flips(None, 1, 16384, boundaries=BOUNDARIES, judge_many=judge_many)
    assert result == search(lambda n: not 700 <= n <= 5000)
    assert batches[0] == grid(1, 16384, BOUNDARIES)
    assert len(batches) < 15
    assert any(len(batch) == 2 for batch in batches[1:])


def test_unknown_points_are_stepped_over():
    def judge(n):
        return "unknown" if n in (6000, 6145, 2048) else "pass" if n <= 6144 else "fail"

    result = find_flips(judge, 1, 16384, boundaries=BOUNDARIES)
    assert edges(result) == [(6144, 6146)]
    assert result.flips[0].to_dict()["gap"] == 1
    assert result.unknown == [2048, 6145]
    assert "neighbours" in result.incomplete


def test_unknown_between_multiples_leaves_a_gap_and_says_so():
    result = find_flips(lambda n: "unknown" if n % 64 else "pass" if n < 5000 else "fail", 64, 16384, boundaries=BOUNDARIES)
    assert edges(result) == [(4992, 5056)]
    assert result.flips[0].gap == 63


def test_a_stretch_of_unknown_is_closed_in_on_from_both_sides():
    result = find_flips(lambda n: "unknown" if 900 < n < 1100 else "pass" if n < 1000 else "fail", 1, 16384)
    assert (edges(result), result.flips[0].gap) == ([(900, 1100)], 199)


def test_nothing_known_is_no_flip_and_one_wide_gap():
    result = find_flips(lambda n: "unknown", 1, 100)
    assert (result.flips, result.widest_gap, result.passes, result.fails) == ([], 100, 0, 0)


def test_a_budget_is_kept_and_reported():
    for budget in (2, 10, 43, 50):
        result = search(lambda n: n <= 3000, budget=budget)
        assert result.evaluations == budget
        assert str(budget) in result.incomplete
        assert result.flips[0].last_pass <= 3000 < result.flips[0].first_fail
        assert result.flips[0].gap > 0
    assert search(lambda n: n <= 3000, budget=53).incomplete is None


def test_a_range_of_one_point():
    result = search(lambda n: False, low=7, high=7)
    assert (result.evaluations, result.fails, result.widest_gap, result.flips) == (1, 1, 0, [])


def test_to_dict_has_the_keys_of_the_contract():
    entry = search(lambda n: n <= 2048, trivial_below=2048).to_dict()
    assert entry == {
        "axis": "context_len",
        "flips": [{"last_pass": 2048, "first_fail": 2049, "direction": "pass_to_fail"}],
        "monotonic": True,
        "period": None,
        "widest_gap": 4095,
        "evaluations": 43,
        "trivial_below": 2048,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"low": 5, "high": 4}, "empty range 5..4"),
        ({"budget": 1}, "budget of 1"),
        ({"judge": None}, "judge"),
        ({"judge": lambda n: "mismatch"}, "verdict of 1 is 'mismatch'"),
        ({"judge_many": lambda points: ["pass"]}, "1 verdicts for"),
    ],
)
def test_misuse_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        find_flips(**{"judge": lambda n: "pass", "low": 1, "high": 100, **arguments})


def test_boundaries_are_resolved_from_params():
    assert grid_boundaries(["topk", 64, "block_size", "num_blocks"], {"topk": 2048, "block_size": 16, "num_blocks": None}) == [16, 64, 2048]
    with pytest.raises(ValueError, match="'top_k' is not an axis"):
        grid_boundaries(["top_k"], {"topk": 1})
    with pytest.raises(ValueError, match="expected an integer"):
        grid_boundaries(["topk"], {"topk": [1, 2]})
