"""Whatever a file holds, the outcome is a valid case file or a CaseFileError of single lines: never a crash, never a hang."""

from __future__ import annotations

import copy

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvcheck.agent import specs
from kvcheck.cases import builtin, sweep
from kvcheck.cases.errors import CaseFileError
from kvcheck.cases.load import load
from kvcheck.cases.overrides import Overrides, apply
from kvcheck.cases.plan import plan
from kvcheck.cases.schema import KEYS

AXES = sorted(specs.axes("paged_mqa_logits"))
WORDS = [
    *KEYS,
    *AXES,
    "full",
    "pairwise",
    "sample: 3",
    "sample",
    "shared_prefix",
    "shuffled",
    "ties",
    "triton",
    "2k",
    "1<<20",
    "1<<99",
    "at",
    "range",
    "axis",
]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 70),
    st.integers(),
    st.sampled_from([10**39, -(10**60), 1 << 4000]),
    st.floats(),
    st.sampled_from(WORDS),
    st.text(max_size=6),
)
garbage = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def outcome(path) -> None:
    """Loads and plans a file; any exception but CaseFileError fails the test."""
    try:
        for case_file in load(path):
            sweep.expand(case_file, "f.yaml", limit=500)
        planned = plan([str(path)], limit=500)
    except CaseFileError as error:
        found = error
    else:
        assert all(not specs.check_params(case.op, case.params) for case in planned.cases)
        return
    assert found.faults
    for fault in found.faults:
        assert str(fault).isprintable()
        assert len(str(fault)) < 2000


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("garbage") / "f.yaml"


lenient = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@lenient
@given(data=st.binary(max_size=120))
def test_any_bytes(path, data):
    path.write_bytes(data)
    outcome(path)


@lenient
@given(text=st.text(alphabet=st.sampled_from(list("ab:-{}[],&*!|>'\"# \n\t?%@0<.")), max_size=60))
def test_any_yaml_like_text(path, text):
    path.write_text(text)
    outcome(path)


@lenient
@given(data=st.dictionaries(st.sampled_from(WORDS), garbage, max_size=6))
def test_any_values_under_any_keys(path, data):
    base = {"schema": 1, "name": "t", "op": "paged_mqa_logits", "providers": ["triton"]}
    path.write_text(yaml.safe_dump({**base, **data}, allow_unicode=True), encoding="utf-8", errors="replace")
    outcome(path)


FILES = [case_file for ref in ("paged_mqa", "smoke", "seeds/vllm_39303") for case_file in load(builtin.find(ref).path)]
SAMPLES = [
    next(yaml.safe_load_all((builtin.root() / f"{ref}.yaml").read_text())) for ref in ("paged_mqa", "_template", "smoke", "topk_per_row")
]


@lenient
@given(sample=st.sampled_from(SAMPLES), value=garbage, choose=st.randoms(use_true_random=False))
def test_a_sound_file_with_one_thing_replaced(path, sample, value, choose):
    data = copy.deepcopy(sample)
    places = []

    def walk(node):
        keys = list(node) if isinstance(node, dict) else range(len(node))
        for key in keys:
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                walk(node[key])

    walk(data)
    node, key = choose.choice(places)
    node[key] = value
    path.write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8", errors="replace")
    outcome(path)


@lenient
@given(
    axis=st.sampled_from([*AXES, "foo", ""]),
    values=st.lists(st.one_of(st.sampled_from(WORDS), st.integers(-2, 5000).map(str), st.text(max_size=5)), max_size=3).map(",".join),
)
def test_any_set(axis, values):
    for case_file in FILES:
        try:
            changed = apply(case_file, Overrides(sets=(f"{axis}={values}",)))
        except CaseFileError as error:
            said = str(error).splitlines()
        else:
            assert changed.replaced == {axis}
            continue
        assert said
        assert all(line.startswith("--set:") for line in said)
