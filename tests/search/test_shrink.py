"""Shrinking against brute force on small spaces, and what it spends."""

from __future__ import annotations

import itertools
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.search.shrink import PASS, Budget, Shrinker

WRONG = ("mismatch", "logits")
OTHER = ("crash", None)


def lower(axis, low=0, step=1):
    """A pass that lowers one number."""

    def go(search):
        search.integer(lambda n: {**search.best, axis: n}, search.best[axis], low, step)

    return go


def shrunk(start, judge, passes, **budget):
    search = Shrinker(start, judge, Budget(**{"evaluations": 100_000, "seconds": 1e9, **budget}))
    search.run(passes)
    return search


@st.composite
def spaces(draw):
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    drawn = random.Random(draw(st.integers(0, 2**32)))
    answers = {point: drawn.choice([PASS, WRONG, WRONG, OTHER, None]) for point in itertools.product(*map(range, sizes))}
    start = draw(st.tuples(*(st.integers(0, size - 1) for size in sizes)))
    answers[start] = WRONG
    return sizes, answers, start


@settings(deadline=None, max_examples=300)
@given(spaces())
def test_the_result_fails_alike_and_no_single_step_from_it_does(drawn):
    sizes, answers, start = drawn
    names = [f"axis{i}" for i in range(len(sizes))]
    asked = []

    def judge(point):
        asked.append(tuple(point[name] for name in names))
        return answers[asked[-1]]

    search = shrunk(dict(zip(names, start, strict=True)), judge, [lower(name) for name in names])
    end = tuple(search.best[name] for name in names)
    assert answers[end] == WRONG and all(a <= b for a, b in zip(end, start, strict=True)) and search.stopped_by is None
    assert len(asked) == len(set(asked)) == search.evaluations
    for place in range(len(end)):
        if end[place]:
            step = (*end[:place], end[place] - 1, *end[place + 1 :])
            assert answers[step] != WRONG


@settings(deadline=None, max_examples=100)
@given(spaces(), st.integers(1, 20))
def test_it_is_deterministic_and_keeps_to_its_evaluations(drawn, evaluations):
    sizes, answers, start = drawn
    names = [f"axis{i}" for i in range(len(sizes))]

    def once():
        search = shrunk(
            dict(zip(names, start, strict=True)),
            lambda point: answers[tuple(point[name] for name in names)],
            [lower(name) for name in names],
            evaluations=evaluations,
        )
        return search.best, search.evaluations, search.steps, search.stopped_by

    first = once()
    assert first == once() and first[1] <= evaluations
    assert answers[tuple(first[0][name] for name in names)] == WRONG


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 5000)), min_size=1, max_size=4))
def test_thresholds_on_every_axis_are_found_exactly_and_cheaply(pairs):
    least = {f"axis{i}": min(pair) for i, pair in enumerate(pairs)}
    start = {f"axis{i}": max(pair) for i, pair in enumerate(pairs)}
    search = shrunk(start, lambda p: WRONG if all(p[a] >= least[a] for a in p) else PASS, [lower(a) for a in start])
    assert search.best == least
    assert search.evaluations <= 80 * len(pairs)


@given(st.integers(1, 40), st.integers(1, 3), st.integers(0, 2000), st.sampled_from([1, 16]))
def test_steps_and_islands(period, residue, value, step):
    """What fails at every so many tokens only is found near the start, multiples of a step are kept to."""
    start = (value * period + residue) * step
    search = shrunk({"n": start}, lambda p: WRONG if p["n"] // step % period == residue % period else PASS, [lower("n", step, step)])
    assert search.best["n"] % step == 0 and search.best["n"] // step % period == residue % period


def test_jumps_by_powers_of_two_cross_what_passes():
    search = shrunk({"n": 64 * 60 + 1}, lambda p: WRONG if p["n"] % 64 == 1 and p["n"] > 1 else PASS, [lower("n")])
    assert search.best == {"n": 65} and search.evaluations < 80


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 60), st.data())
def test_items_that_are_needed_stay_and_nothing_else_does(count, data):
    needed = data.draw(st.sets(st.integers(0, count - 1), max_size=5))

    def fewer(search):
        items = search.best["items"]
        search.subset(lambda kept: {"items": kept}, items)

    search = shrunk({"items": list(range(count))}, lambda p: WRONG if needed <= set(p["items"]) else PASS, [fewer])
    assert search.best["items"] == sorted(needed)


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 12), st.integers(0, 2**32))
def test_no_one_item_can_go_whatever_the_predicate(count, seed):
    drawn = random.Random(seed)
    answers = [drawn.random() < 0.5 for _ in range(1 << count)]

    def wrong(items):
        return answers[sum(1 << item for item in items)] or len(items) == count

    def fewer(search):
        search.subset(lambda kept: {"items": kept}, search.best["items"], least=1)

    best = shrunk({"items": list(range(count))}, lambda p: WRONG if wrong(p["items"]) else PASS, [fewer]).best["items"]
    assert wrong(best) and len(best) >= 1
    assert len(best) == 1 or not any(wrong([kept for kept in best if kept != item]) for item in best)


def test_another_identity_is_not_followed():
    search = shrunk({"n": 100}, lambda p: WRONG if p["n"] >= 40 else OTHER, [lower("n")])
    assert search.best == {"n": 40} and search.identity == WRONG


def test_time_ends_it_and_what_was_found_stays():
    now = iter(range(1000))
    search = Shrinker({"n": 1000}, lambda p: WRONG if p["n"] >= 600 else PASS, Budget(1000, 10.0), lambda: next(now))
    search.run([lower("n")])
    assert search.stopped_by == "seconds" and search.evaluations <= 10 and 600 <= search.best["n"] < 1000


def test_the_twin_is_the_closest_that_passes_and_what_is_known_is_not_asked_again():
    asked = []

    def judge(point):
        asked.append(point["n"])
        return WRONG if point["n"] >= 40 else None if point["n"] == 39 else PASS

    search = Shrinker({"n": 100}, judge)
    search.run([lower("n")])
    twin = search.twin([{"n": 39}, {"n": 41}], lambda p: abs(p["n"] - 40))
    assert search.best == {"n": 40} and len(asked) == len(set(asked))
    assert twin == {"n": max(n for n in asked if n < 39)}


def test_nothing_near_passes():
    search = Shrinker({"n": 3}, lambda p: WRONG)
    search.run([lower("n")])
    assert search.best == {"n": 0} and search.twin([{"n": 1}], lambda p: p["n"]) is None


def test_something_is_left_for_the_twin():
    search = shrunk({"n": 10_000}, lambda p: WRONG if p["n"] >= 7001 else PASS, [lower("n")], evaluations=10)
    assert search.stopped_by == "evaluations" and search.evaluations <= 8
    best = search.best["n"]
    search.twin([{"n": best - 1}, {"n": best + 1}], lambda p: abs(p["n"] - best))
    assert search.evaluations <= 10
