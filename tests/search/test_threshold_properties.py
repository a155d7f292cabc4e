"""What holds for any predicate, and for islands wider than what was not looked into."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.search.threshold import STRAY_FLIPS, find_flips, grid

HIGH = 20_000
boundary_sets = st.lists(st.integers(1, HIGH), max_size=4)


def unseen(low, high, boundaries):
    """The widest stretch that the grid leaves out."""
    points = grid(low, high, boundaries)
    return max((b - a - 1 for a, b in zip(points, points[1:], strict=False)), default=0)


@st.composite
def islands(draw):
    """A range, boundaries, and edges at least the widest unseen stretch + 1 apart: runs of passes and failures by turns."""
    low, boundaries = draw(st.integers(1, 50)), draw(boundary_sets)
    high = draw(st.integers(low + 10, HIGH))
    least = unseen(low, high, boundaries) + 1
    edge, edges = low, []
    for _ in range(draw(st.integers(0, 5))):
        edge += draw(st.integers(least, 3 * least))
        if edge + least > high + 1:
            break
        edges.append(edge)
    return low, high, boundaries, edges, draw(st.booleans())


@settings(deadline=None, max_examples=300)
@given(islands())
def test_islands_wider_than_the_widest_gap_are_found_with_exact_edges(drawn):
    low, high, boundaries, edges, first = drawn

    def judge(n):
        return "pass" if first == (sum(n >= edge for edge in edges) % 2 == 0) else "fail"

    result = find_flips(judge, low, high, boundaries=boundaries)
    found = sorted(max(flip.last_pass, flip.first_fail) for flip in result.flips)
    assert found == edges
    assert all(abs(flip.last_pass - flip.first_fail) == 1 for flip in result.flips)
    assert result.widest_gap <= unseen(low, high, boundaries)
    assert result.monotonic == (len(edges) <= 1)


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 30), st.integers(0, 400), st.binary(min_size=16, max_size=64), boundary_sets, st.booleans())
def test_any_predicate_all_reported_flips_are_true_neighbours(low, span, pattern, boundaries, with_unknown):
    high = low + span
    asked = []

    def judge(n):
        asked.append(n)
        bits = pattern[n % len(pattern)] ^ pattern[n * 7 // 16 % len(pattern)]
        return "unknown" if with_unknown and bits % 5 == 0 else "pass" if bits & 2 else "fail"

    result = find_flips(judge, low, high, boundaries=boundaries)
    points = list(asked)
    verdicts = {n: judge(n) for n in points}
    assert len(points) == len(set(points)) == result.evaluations
    assert {low, high} <= set(points) <= set(range(low, high + 1))
    known = sorted(n for n in points if verdicts[n] != "unknown")
    assert result.unknown == sorted(set(points) - set(known))
    for flip in result.flips:
        assert (verdicts[flip.last_pass], verdicts[flip.first_fail]) == ("pass", "fail")
        between = range(min(flip.last_pass, flip.first_fail) + 1, max(flip.last_pass, flip.first_fail))
        assert flip.gap == len(between)
        assert not set(between) & set(known)
        assert with_unknown or not flip.gap
    changes = sum(verdicts[a] != verdicts[b] for a, b in zip(known, known[1:], strict=False))
    assert len(result.flips) == changes
    marks = [low - 1, *known, high + 1]
    assert result.widest_gap == max(b - a - 1 for a, b in zip(marks, marks[1:], strict=False))


@settings(deadline=None, max_examples=100)
@given(st.integers(2, 500), st.integers(0, 499), st.integers(1, 499), st.integers(1, 200))
def test_a_named_period_is_contradicted_by_no_point_that_was_judged(period, phase, width, tail):
    judged = {}

    def judge(n):
        judged[n] = "pass" if (n + phase) % period < width or n % 7000 < tail else "fail"
        return judged[n]

    result = find_flips(judge, 1, HIGH, boundaries=[64, 2048])
    if result.period:
        ends = [point for flip in result.flips[STRAY_FLIPS:] for point in (flip.last_pass, flip.first_fail)]
        seen = {n % result.period: verdict for n, verdict in judged.items() if min(ends) <= n <= max(ends)}
        assert all(seen[n % result.period] == verdict for n, verdict in judged.items() if min(ends) <= n <= max(ends))


@settings(deadline=None, max_examples=60)
@given(st.binary(min_size=8, max_size=32), st.integers(2, 3000), st.one_of(st.none(), st.integers(2, 60)))
def test_batches_and_single_calls_agree_and_repeat(pattern, high, budget):
    def judge(n):
        return ("pass", "fail", "fail", "unknown")[pattern[n % len(pattern)] % 4]

    single = find_flips(judge, 1, high, boundaries=[64], budget=budget)
    batched = find_flips(None, 1, high, boundaries=[64], budget=budget, judge_many=lambda points: [judge(n) for n in points])
    assert single == batched == find_flips(judge, 1, high, boundaries=[64], budget=budget)
    assert budget is None or single.evaluations <= budget
