"""What is simpler on the axes of each op: no pass makes a case less simple, none stops early, a step is one step."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.agent import specs
from kvcheck.cases.model import Case
from kvcheck.flow import shrink_axes as axes
from kvcheck.flow import shrink_requests as requests
from kvcheck.flow.options import NothingJudged, UsageError
from kvcheck.flow.shrink import find_row, identity, rebuild, shrink_case
from kvcheck.search.shrink import PASS, Budget, Shrinker

OPS = specs.names("ops")
WRONG = ("mismatch", "out", "bound", None, None)


def point_of(op, draw):
    """A case of an op that can be, ragged where it can be."""
    known = specs.axes(op)
    point = {}
    for name, axis in known.items():
        if axis.type == "choice":
            point[name] = draw.choice([name for name in axis.choices if name != "auto"])
        elif axis.type == "int":
            step, low = axis.multiple_of or 1, int(axis.min or 0)
            value = -(-low // step) * step + step * draw.choice([0, 1, 3, 7, 12])
            point[name] = value if not axis.optional or draw.random() < 0.3 else None
        else:
            point[name] = axis.default
    if "context_len" in point:
        point["batch"] = draw.choice([1, 2, 3, 5])
        point["context_len"] = draw.choice([draw.randrange(200), [draw.randrange(200) for _ in range(point["batch"])]])
    for name in known.unlisted if draw.random() < 0.3 else ():
        point[name] = sorted(draw.sample(range(100), draw.choice([0, 1, 4])))
    return point if not specs.check_params(op, point) else point_of(op, draw)


def rank(axis, value):
    """How far a value is from the simplest; lower is simpler."""
    if axis.type == "positions":
        return 1e9 if value is None else len(value)
    if value is None:
        return -1
    if axis.type == "lengths":
        return sum(value) if isinstance(value, list) else None
    if axis.type == "int" and axis.name not in axes.NOT_A_SIZE:
        return value
    return len(axes.simplest(axis, value))


def total(point):
    """Tokens of all requests."""
    return sum(requests.entries(point)) if "context_len" in point else 0


def conditions(op, start, draw):
    """A predicate that the start meets: some axes have to be at least, or exactly, what is drawn."""
    wanted = []
    for name, axis in specs.axes(op).items():
        value = start[name]
        if draw.random() < 0.6 or value is None:
            continue
        if axis.type == "choice":
            wanted.append((name, lambda v, value=value: v == value))
        elif axis.type == "int" and name not in ("batch", "next_n"):
            least = draw.randint(0, value)
            wanted.append((name, lambda v, least=least: v is not None and v >= least))
    least = draw.randint(0, total(start))
    return lambda point: all(test(point[name]) for name, test in wanted) and total(point) >= least


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(OPS), st.integers(0, 2**32))
def test_every_pass_goes_one_way_and_a_round_without_change_is_a_local_minimum(op, seed):
    draw = random.Random(seed)
    start = point_of(op, draw)
    meets = conditions(op, start, draw)
    search = Shrinker(start, lambda p: WRONG if meets(p) else PASS, Budget(20_000, 1e9), possible=lambda p: not specs.check_params(op, p))
    search.run([*axes.passes(op), *axes.data_passes(op)])
    best, known = search.best, specs.axes(op)
    assert search.stopped_by is None and meets(best) and not specs.check_params(op, best)
    for name, value in best.items():
        if name != "context_len" and not (name in known.unlisted and name not in start):
            assert rank(known[name], value) <= rank(known[name], start[name])
    assert total(best) <= total(start)
    for name, axis in known.items():
        value = best[name]
        if axis.type in ("choice", "number", "bool"):
            simpler = [{**best, name: other} for other in axes.simplest(axis, value)]
        elif axis.type == "int" and isinstance(value, int) and name not in ("batch", *axes.NOT_A_SIZE):
            simpler = [{**best, name: value - (axis.multiple_of or 1)}] + ([{**best, name: None}] if axis.optional else [])
        elif axis.type == "lengths":
            near = [other for other in requests.steps(best, axis) if isinstance(best[name], list) or isinstance(other[name], int)]
            simpler = [other for other in near if total(other) <= total(best) and other["batch"] <= best["batch"]]
        else:
            simpler = []
        for other in simpler:
            assert specs.check_params(op, other) or not meets(other), f"{other} is simpler than {best}"


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(OPS), st.integers(0, 2**32))
def test_a_step_is_on_one_axis_and_has_a_distance(op, seed):
    point = point_of(op, random.Random(seed))
    found = list(axes.steps(op, point))
    assert found and len({json.dumps(other, sort_keys=True) for other in found}) >= len(found) * 0.6
    for other in found:
        assert set(axes.differing(point, other)) <= {"batch", "context_len"} or len(axes.differing(point, other)) == 1
        apart = axes.distance(op, point, other)
        assert apart is None or 0 < apart <= 1
    assert axes.distance(op, point, point) is None


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"context_len": 99}, 0.01),
        ({"num_heads": 8}, 0.5),
        ({"values": "gaussian"}, 1.0),
        ({"num_heads": 8, "head_dim": 32}, None),
        ({"env.A": "1"}, None),
        ({"batch": 2, "context_len": [100, 7]}, 0.5),
        ({"nonzero_keys": [1]}, 0.5),
        ({"nonzero_keys": None}, 1.0),
    ],
)
def test_distances(change, expected):
    known = {name: axis.default for name, axis in specs.axes("paged_mqa_logits").items()}
    point = {**known, "context_len": 100, "num_heads": 16, "values": "exact_int", "nonzero_keys": [1, 2]}
    found = axes.distance("paged_mqa_logits", point, {**point, **change})
    assert found == expected if expected is None else abs(found - expected) < 1e-9


def test_simplest_values_come_first():
    known = specs.axes("paged_mqa_logits")
    assert axes.simplest(known["values"], "heavy_tail") == ["exact_int", "gaussian"]
    assert axes.simplest(known["block_table"], "shuffled") == ["contiguous", "reversed"]
    assert axes.simplest(known["block_table"], "contiguous") == []
    assert "auto" not in axes.simplest(known["poison"], "finite_beacon")
    assert axes.simplest(specs.axes("mla_decode")["softmax_scale"], 0.25) == [None, 1.0]


def test_requests_that_fail_together_stay_together():
    point = {"batch": 4, "context_len": [50, 0, 70, 9], "next_n": 1}
    axis = specs.axes("paged_mqa_logits")["context_len"]
    search = Shrinker(point, lambda p: WRONG if 0 in requests.entries(p) and max(requests.entries(p)) >= 60 else PASS)
    search.run([lambda s: requests.fewer(s, axis), lambda s: requests.shorter(s, axis, [1, 2])])
    assert search.best == {"batch": 2, "context_len": [0, 60], "next_n": 1}


def test_lengths_a_token_lose_tokens_with_next_n():
    point = {"batch": 2, "context_len": [[9, 12], [0, 5]], "next_n": 2}
    axis = specs.axes("paged_mqa_logits")["context_len"]
    search = Shrinker(point, lambda p: WRONG if 9 in (p["context_len"] if isinstance(p["context_len"], list) else [9])[0] else PASS)
    search.run([lambda s: requests.fewer(s, axis), lambda s: requests.fewer_tokens(s, axis)])
    assert search.best == {"batch": 1, "context_len": [[9]], "next_n": 1}


def row(verdict="mismatch", **more):
    """A row of run.json."""
    known = {name: axis.default for name, axis in specs.axes("topk_per_row").items()}
    plain = {
        "id": "t[topk=1]",
        "case_file": "t",
        "op": "topk_per_row",
        "provider": "triton",
        "params": known,
        "seed": 3,
        "verdict": verdict,
    }
    return {**plain, "repro": "kvcheck run t --only 't[topk=1]' --repeat 3", "precision": "fp32_any (given)", "message": "", **more}


def test_identities():
    assert identity(row(output="logits", check="bound")) == ("mismatch", "logits", "bound", None, None)
    assert identity(row("pass")) == PASS and identity(row("pass", element_count=0)) is None
    assert [identity(row(name)) for name in ("unsupported", "invalid_case", "harness_error")] == [None] * 3
    crashes = ["IndexError: past the end at a.py:3", "the agent was ended by SIGSEGV in phase kernel", "SIGABRT in phase kernel"]
    assert [identity(row("crash", message=text))[3] for text in crashes] == ["IndexError", "SIGSEGV", "SIGABRT"]
    staged = row("crash", first_wrong_stage="mla_decode", message="first wrong stage: mla_decode: ValueError: no; nothing travels")
    assert identity(staged)[3:] == ("ValueError", "mla_decode")


def test_a_rebuilt_case_asks_for_what_the_row_says():
    case = rebuild(row(relations=[{"name": "repeat"}], asked={"fresh": 2}))
    assert isinstance(case, Case) and case.asked == {"repeat": 3, "fresh": 2, "precision": "fp32_any", "relations": ["repeat"]}
    assert case.seed == 3 and case.params["topk"] == 2048


@pytest.mark.parametrize(
    ("rows", "text", "said"),
    [
        ([row(), row(provider="aiter")], "t[topk=1]", "of 2 providers; name one of"),
        ([row("pass")], "t[topk=1]", "whose verdict is pass; no case of this run failed"),
        ([row()], "t[topk=2]", "nearest: t[topk=1]"),
    ],
)
def test_rows_that_cannot_be_meant(rows, text, said):
    with pytest.raises(UsageError, match="CASE_ID") as error:
        find_row({"cases": rows}, text)
    assert said in str(error.value)


def test_a_row_is_found_by_its_provider():
    assert find_row({"cases": [row(), row(provider="aiter")]}, "t[topk=1]@aiter")["provider"] == "aiter"


def test_another_failure_than_the_runs_is_none():
    case = rebuild(row())
    with pytest.raises(NothingJudged, match="does not repeat: mismatch of out in the run, crash"):
        shrink_case(case, lambda case: row("crash", message="ValueError: no"), Budget(), row(output="out"))
