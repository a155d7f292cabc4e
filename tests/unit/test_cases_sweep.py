"""From a case file to its points: counted before they are built, every allowed pair covered, the same on every machine."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcheck.agent import specs
from kvcheck.cases import combos, space, sweep
from kvcheck.cases.errors import CaseFileError
from kvcheck.cases.load import load
from kvcheck.cases.model import CaseFile, Factor, Rule
from kvcheck.cases.space import Space

HEAD = "schema: 1\nname: t\nop: paged_mqa_logits\nproviders: [triton]\n"
AXES_OF = specs.axes("paged_mqa_logits")
AXES = ("batch", "next_n", "num_heads", "topk", "block_size")


@pytest.fixture
def file(tmp_path):
    def read(text: str) -> CaseFile:
        path = tmp_path / "f.yaml"
        path.write_text(HEAD + textwrap.dedent(text))
        return load(path)[0]

    return read


def ids(case_file: CaseFile, limit: int = sweep.LIMIT) -> list[str]:
    return [case_file.case(point, "triton").id for point in sweep.expand(case_file, "f.yaml", limit).points]


def test_axes_multiply_in_file_order_and_the_first_varies_slowest(file):
    found = ids(file("axes: {topk: [8, 16], batch: [1, 2]}\n"))
    assert found == ["t[topk=8,batch=1]", "t[topk=8,batch=2]", "t[topk=16,batch=1]", "t[topk=16,batch=2]"]


def test_zipped_axes_go_together_and_multiply_as_one(file):
    found = ids(file("zip: {topk: [8, 16], batch: [1, 2]}\naxes: {next_n: [1, 3]}\n"))
    assert found == [
        "t[topk=8,batch=1,next_n=1]",
        "t[topk=8,batch=1,next_n=3]",
        "t[topk=16,batch=2,next_n=1]",
        "t[topk=16,batch=2,next_n=3]",
    ]


def test_exclude_drops_and_include_adds(file):
    case_file = file(
        """
        axes: {context_len: [1, 64], next_n: [1, 2]}
        exclude: [{context_len: 1, next_n: [2]}]
        include: [{next_n: 2}, {context_len: 64, next_n: 1}, {context_len: 9, values: ties}]
        """
    )
    assert ids(case_file) == [
        "t[context_len=1,next_n=1]",
        "t[context_len=64,next_n=1]",
        "t[context_len=64,next_n=2]",
        "t[context_len=1,next_n=2]",
        "t[context_len=9,next_n=1,values=ties]",
    ]


def test_a_rule_may_name_an_axis_that_does_not_vary(file):
    case_file = file("axes: {next_n: [1, 2]}\nfixed: {batch: 3}\nexclude: [{next_n: 2, batch: [3, 3]}]\n")
    assert ids(case_file) == ["t[next_n=1]"]


def test_lists_in_ids_and_params(file):
    case_file = file("fixed: {batch: 2}\naxes: {context_len: [7, [4096, 0], [[5, 6], [33, 34]]], next_n: [2]}\n")
    cases = [case_file.case(point, "aiter@/x") for point in sweep.expand(case_file, "f").points]
    assert [case.id for case in cases] == [
        "t[context_len=7,next_n=2]",
        "t[context_len=4096/0,next_n=2]",
        "t[context_len=5+6/33+34,next_n=2]",
    ]
    assert cases[2].params["context_len"] == [[5, 6], [33, 34]]
    assert cases[2].row == "t[context_len=5+6/33+34,next_n=2]@aiter@/x"


def test_a_case_holds_every_axis_and_asks_for_itself(file):
    keys = "seed: 1k\nrepeat: 3\nfresh: 2\nprecision: fp32_any\nrun_unsupported: true\nrelations: repeat\n"
    case_file = file("fixed: {batch: 2}\naxes: {topk: [8]}\n" + keys)
    case = case_file.case({"topk": 8}, "triton")
    request = case.request()
    assert request.pop("params") == {**{name: axis.default for name, axis in AXES_OF.items()}, "batch": 2, "topk": 8}
    assert request == {
        "type": "case",
        "id": "t[topk=8]",
        "case_file": case_file.path,
        "op": "paged_mqa_logits",
        "provider": "triton",
        "seed": 1024,
        "run_unsupported": True,
        "precision": "fp32_any",
        "repeat": 3,
        "fresh": 2,
        "relations": ["repeat"],
        "diagnose": False,
    }


def test_variables_are_axes_of_their_own(file):
    case_file = file("env: {AITER_X: [0, 1, null], FIXED: 'on'}\naxes: {topk: [8]}\n")
    cases = [case_file.case(point, "triton") for point in sweep.expand(case_file, "f.yaml").points]
    assert [case.id for case in cases] == [f"t[env.AITER_X={value},topk=8]" for value in ("0", "1", "null")]
    assert [case.variables for case in cases] == [{"FIXED": "on", "AITER_X": value} for value in ("0", "1", None)]


def test_a_file_without_axes_is_one_point(file):
    assert ids(file("fixed: {batch: 2}\n")) == ["t[]"]


def test_a_huge_sweep_is_counted_and_refused_before_it_is_built(file):
    axes = {name: list(range(1, 41)) for name in AXES}
    case_file = file(f"axes: {axes}\nfixed: {{context_len: 64}}\n")
    with pytest.raises(CaseFileError) as caught:
        sweep.expand(case_file, "f.yaml")
    text = str(caught.value)
    assert text.startswith(f"f.yaml:5: axes: expected a sweep of at most 20000 points, got {40**5} points")
    assert f"--limit {40**5}" in text


def test_the_limit_can_be_raised_and_lowered(file):
    case_file = file("axes: {batch: [1, 2, 3], next_n: [1, 2, 3]}\n")
    assert len(ids(case_file, 9)) == 9
    with pytest.raises(CaseFileError, match="at most 8 points, got 9 points"):
        ids(case_file, 8)


def test_excluded_points_do_not_count(file):
    case_file = file("axes: {batch: [1, 2, 3], next_n: [1, 2, 3]}\nexclude: [{batch: [1, 2]}]\n")
    assert len(ids(case_file, 3)) == 3


def test_a_sample_of_a_huge_product_says_its_fraction(file):
    axes = {name: list(range(1, 41)) for name in AXES}
    case_file = file(f"axes: {axes}\nfixed: {{context_len: 64}}\ncoverage: sample 50\nseed: 3\n")
    drawn = sweep.expand(case_file, "f.yaml")
    assert len(drawn.points) == 50
    assert drawn.total == 40**5
    assert drawn.sentence == f"50 of {40**5} points ({50 / 40**5:.2%}), a seeded sample"
    assert drawn.points == sweep.expand(case_file, "f.yaml").points
    other = file(f"axes: {axes}\nfixed: {{context_len: 64}}\nsample: 50\nseed: 4\n")
    assert drawn.points != sweep.expand(other, "f.yaml").points


def test_a_sample_larger_than_the_product_is_the_product(file):
    assert len(ids(file("axes: {batch: [1, 2], next_n: [1, 2]}\ncoverage: {sample: 1<<40}\n"))) == 4


def test_pairwise_does_not_depend_on_the_hash_seed(tmp_path):
    program = "from kvcheck.cases.plan import plan; print([c.id for c in plan(['paged_mqa']).cases])"
    said = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        said.add(
            subprocess.run(
                [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
            ).stdout
        )
    assert len(said) == 1


def models():
    """Case files of small axes, zips and exclusions."""

    @st.composite
    def build(draw):
        factors = []
        names = iter(AXES)
        for width in draw(st.lists(st.sampled_from([1, 1, 1, 2]), min_size=1, max_size=4)):
            axes = tuple(itertools.islice(names, width))
            if len(axes) < width:
                break
            length = draw(st.integers(1, 4))
            entries = tuple(tuple(i + 1 if k == 0 else (i + 1) % 2 + 1 for k in range(width)) for i in range(length))
            factors.append(Factor(axes, entries, (None,) * length))
        values = {axis: sorted({entry[k] for entry in factor.values}) for factor in factors for k, axis in enumerate(factor.axes)}
        rules = []
        for _ in range(draw(st.integers(0, 5))):
            chosen = draw(st.lists(st.sampled_from(sorted(values)), min_size=1, max_size=3, unique=True))
            entries = {axis: tuple(draw(st.lists(st.sampled_from(values[axis]), min_size=1, max_size=2, unique=True))) for axis in chosen}
            rules.append(Rule(entries, None, "exclude[0]"))
        coverage = draw(st.sampled_from([("full", None), ("pairwise", None), ("sample", 5)]))
        return CaseFile("f", "f", 1, "t", "paged_mqa_logits", "", ("triton",), {}, tuple(factors), (), tuple(rules), coverage)

    return build()


def brute(case_file: CaseFile) -> list[dict[str, int]]:
    """Every allowed point, the slow way."""
    points = []
    for entries in itertools.product(*(factor.values for factor in case_file.factors)):
        point = {}
        for factor, entry in zip(case_file.factors, entries, strict=True):
            point.update(zip(factor.axes, entry, strict=True))
        if not any(all(point[axis] in wanted for axis, wanted in rule.entries.items()) for rule in case_file.exclude):
            points.append(point)
    return points


def pairs(points):
    return {pair for point in points for pair in itertools.combinations(point.items(), 2)}


@settings(max_examples=150, deadline=None)
@given(models())
def test_counting_equals_building(case_file):
    allowed = brute(case_file)
    counted = combos.space(case_file)
    assert counted.count() == len(allowed)
    assert [sweep._point(case_file, indices) for indices in counted] == allowed


@settings(max_examples=150, deadline=None)
@given(models())
def test_every_coverage_keeps_its_promise(case_file):
    allowed = brute(case_file)
    drawn = sweep.expand(case_file, "f.yaml")
    points = list(drawn.points)
    order = [allowed.index(point) for point in points]
    assert order == sorted(set(order)), "allowed points, each once, in sweep order"
    found = [case_file.case(point, "triton").id for point in points]
    assert len(set(found)) == len(found)
    if case_file.coverage[0] == "full":
        assert points == allowed
    elif case_file.coverage[0] == "pairwise":
        assert pairs(points) == pairs(allowed), "every pair of values that some allowed point holds"
        assert {item for point in points for item in point.items()} == {item for point in allowed for item in point.items()}
    else:
        assert len(points) == min(5, len(allowed))
    assert drawn.total == len(allowed)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=4),
    st.lists(st.dictionaries(st.integers(0, 3), st.frozensets(st.integers(0, 4)), min_size=0, max_size=3), max_size=6),
)
def test_spaces_count_any_exclusions(sizes, rules):
    rules = [{factor: indices for factor, indices in rule.items() if factor < len(sizes)} for rule in rules]
    counted = Space([range(size) for size in sizes], rules)
    slow = [
        point
        for point in itertools.product(*(range(size) for size in sizes))
        if not any(all(point[factor] in indices for factor, indices in rule.items()) for rule in rules)
    ]
    assert counted.count() == len(slow)
    assert list(counted) == slow


def test_every_point_is_drawn_equally_often():
    counted = Space([range(3), range(3)], [{0: frozenset([0]), 1: frozenset([0, 1])}])
    hits = dict.fromkeys(counted, 0)
    for seed in range(1400):
        for point in counted.sample(2, seed):
            hits[point] += 1
    expected = Fraction(1400 * 2, 7)
    assert all(abs(count - expected) < 80 for count in hits.values()), hits


def test_rules_that_cannot_be_counted_are_a_fault_and_not_a_hang(file, monkeypatch):
    monkeypatch.setattr(space, "MAX_STATES", 5)
    rules = "".join(f"  - {{batch: {i}, next_n: {i}, topk: {i}}}\n" for i in range(1, 7))
    with pytest.raises(CaseFileError, match="rules that can be counted, got 6 that interact"):
        file(f"axes: {{batch: [1, 2, 3, 4, 5, 6], next_n: [1, 2, 3, 4, 5, 6], topk: [1, 2, 3, 4, 5, 6]}}\nexclude:\n{rules}")


def test_three_axes_that_cannot_be_together_are_found_among_the_points(file):
    case_file = file("axes: {num_blocks: [8, 64], context_len: [8, 64], block_size: [1, 8], batch: [1]}\n")
    found = combos.points(case_file, "f.yaml", sweep.expand(case_file, "f.yaml").points)
    assert len(found) == 1
    assert "num_blocks 8" in str(found[0])
    assert "context_len 64" in str(found[0])
