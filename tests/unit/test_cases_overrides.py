"""What options change: `--set`, `--provider`, `--coverage`, `--seed`, `--repeat`, `--precision`, `--only`, `--shard`, `--limit`."""

from __future__ import annotations

import textwrap

import pytest

from kvcheck.cases.errors import CaseFileError
from kvcheck.cases.overrides import Overrides
from kvcheck.cases.plan import load_all, plan

TEXT = """
schema: 1
name: t
op: paged_mqa_logits
providers: [triton, aiter]
fixed: {batch: 2, max_model_len: 4096}
axes:
  context_len: [64, 128]
  next_n: [1, 2]
zip: {num_heads: [32, 64], block_size: [1, 16]}
inputs: {values: gaussian}
exclude: [{context_len: 64, next_n: 2}]
include: [{context_len: 300, num_heads: 32}]
threshold: {axis: context_len, range: [1, 2k], at: {next_n: 1}}
"""


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "t.yaml"
    file.write_text(textwrap.dedent(TEXT))
    return str(file)


def under(path, *sets, **options):
    return load_all([path], Overrides(sets=sets, **options))[0]


def wrong(path, *sets, **options) -> list[str]:
    with pytest.raises(CaseFileError) as caught:
        plan([path], Overrides(sets=sets, **options))
    return [str(fault) for fault in caught.value.faults]


def test_an_axis_is_replaced_and_stays_where_it_was(path):
    case_file = under(path, "context_len=1k,2000,4096/0")
    assert case_file.swept == ("context_len", "next_n", "num_heads", "block_size")
    assert case_file.values_of("context_len") == (1024, 2000, [4096, 0])


def test_a_fixed_axis_takes_one_value_or_becomes_an_axis(path):
    assert under(path, "batch=3").fixed["batch"] == 3
    case_file = under(path, "batch=3,4")
    assert "batch" not in case_file.fixed
    assert case_file.swept[-1] == "batch"


def test_an_input_and_an_axis_that_the_file_does_not_name(path):
    assert under(path, "values=ties").fixed["values"] == "ties"
    assert under(path, "topk=64").base()["topk"] == 64
    assert under(path, "topk=64,128").swept[-1] == "topk"


def test_null_and_auto(path):
    assert under(path, "max_model_len=null").base()["max_model_len"] is None
    assert under(path, "max_model_len=auto").base()["max_model_len"] is None
    assert under(path, "kv_dtype=auto").base()["kv_dtype"] == "auto"


def test_a_zipped_column_is_replaced_or_picked_from(path):
    assert under(path, "num_heads=8,16").factors[-1].values == ((8, 1), (16, 16))
    assert under(path, "num_heads=64").factors[-1].values == ((64, 16),)
    assert under(path, "num_heads=8", "block_size=4").factors[-1].values == ((8, 4),)
    found = wrong(path, "num_heads=8")
    assert found == ["--set: num_heads: expected 2 values, or some of those that are zipped with block_size: 32, 64, got 8"]


def test_exclude_still_applies(path):
    ids = [case.id for case in plan([path], Overrides(sets=("context_len=64", "next_n=1,2", "num_heads=32"))).cases]
    assert ids == ["t[context_len=64,next_n=1,num_heads=32,block_size=1]"] * 2, "one point, two providers"


def test_a_rule_whose_value_was_replaced_is_no_fault(path):
    assert len(plan([path], Overrides(sets=("context_len=256", "num_heads=32"))).cases) == 4


def test_include_keeps_to_what_was_set(path):
    assert len(under(path).include) == 1
    assert under(path, "context_len=64").include == ()
    assert len(under(path, "context_len=64,300").include) == 1
    assert len(under(path, "batch=4").include) == 1


def test_the_threshold_block_follows(path):
    assert under(path, "next_n=2").threshold.at == {"next_n": 2}
    assert under(path, "next_n=1,2").threshold.at == {}
    assert under(path, "max_model_len=1k").threshold.high == 1024
    assert under(path, "context_len=9").threshold == under(path).threshold


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("contextlen=3", "--set: expected an axis of paged_mqa_logits: batch, "),
        ("contextlen=3", "got 'contextlen'; nearest: context_len"),
        ("context_len", "--set: expected axis=v1,v2, got 'context_len'; nearest: context_len=..."),
        ("context_len=", "--set: expected axis=v1,v2"),
        ("context_len=4,,5", "--set: context_len: expected an integer"),
        ("context_len=x", "got 'x'"),
        ("block_size=0", "--set: block_size: expected an integer from 1 to 65536, got 0; nearest: 1"),
        ("block_table=shufled", "got 'shufled'; nearest: shuffled"),
        ("context_len=64,64", "--set: context_len: expected each value once, got '64' again"),
        ("num_heads=null", "--set: num_heads: expected an integer from 1 to 1024, got null"),
        ("context_len=1/2/3", "expected a list of 2, one entry a request, got 3 entries"),
        ("context_len=10k", "expected at most max_model_len (4096), got 10240"),
    ],
)
def test_what_is_wrong_with_a_set(path, text, fault):
    found = wrong(path, text)
    assert len(found) == 1, found
    assert fault in found[0]


def test_a_set_twice(path):
    assert "--set: batch: expected each axis once" in wrong(path, "batch=1", "batch=2")[0]


def test_an_impossible_set_says_that_it_was_set(path):
    assert "(--set)" in wrong(path, "block_table=shared_prefix", "batch=1")[0]


def test_all_wrong_options_come_at_once(path):
    found = wrong(path, "foo=3", providers=("tritn", "aiter", "aiter"), coverage="pairwse", seed=-1, repeat=0, precision="fp32")
    assert [text.split(":")[0] for text in found] == [
        "--provider",
        "--provider",
        "--coverage",
        "--seed",
        "--repeat",
        "--precision",
        "--set",
    ]
    assert "nearest: triton" in found[0]
    assert "nearest: pairwise" in found[2]
    assert "nearest: fp32_any" in found[5]


def test_options_replace(path):
    options = {"providers": ("fault:wrong_past=64",), "coverage": "sample:2", "seed": 7, "repeat": 2, "precision": "ieee_rn"}
    cases = plan([path], Overrides(**options)).cases
    assert len(cases) == 3, "two drawn, and the included one"
    assert {(case.provider, case.seed, case.repeat, case.precision) for case in cases} == {("fault:wrong_past=64", 7, 2, "ieee_rn")}


def test_what_was_drawn_is_said(path):
    assert plan([path]).notes == ()
    assert plan([path], Overrides(coverage="sample:3")).notes == ("t: 4 of 6 points (66.67%), a seeded sample",)


def test_points_come_first_and_then_providers(path):
    cases = plan([path]).cases
    assert [case.provider for case in cases[:4]] == ["triton", "aiter", "triton", "aiter"]
    assert cases[0].id == cases[1].id


def test_only_by_id_and_by_row(path):
    name = "t[context_len=128,next_n=2,num_heads=64,block_size=16]"
    assert [case.row for case in plan([path], only=[name]).cases] == [f"{name}@triton", f"{name}@aiter"]
    assert [case.row for case in plan([path], only=[f"{name}@aiter"]).cases] == [f"{name}@aiter"]
    assert len(plan([path], only=[name, f"{name}@aiter"]).cases) == 2


def test_only_of_a_provider_that_is_a_folder(path):
    options = Overrides(providers=("aiter@/src/a",))
    name = plan([path], options).cases[0].row
    assert name.endswith("]@aiter@/src/a")
    assert [case.row for case in plan([path], options, only=[name]).cases] == [name]


def test_only_of_an_unknown_id_names_the_nearest(path):
    with pytest.raises(CaseFileError) as caught:
        plan([path], only=["t[context_len=128,next_n=2,num_heads=64,block_size=17]", "x"])
    first, second = caught.value.faults
    assert str(first).startswith("--only: expected CASE_ID or CASE_ID@PROVIDER of this run, got 't[context_len=128,")
    assert first.nearest == "t[context_len=128,next_n=2,num_heads=64,block_size=16]"
    assert second.nearest is None


def test_the_nearest_of_many_ids_is_found_quickly(path):
    sets = ("topk=" + ",".join(map(str, range(1, 1001))),)
    with pytest.raises(CaseFileError) as caught:
        plan([path], Overrides(sets=sets), only=["t[context_len=128,next_n=2,num_heads=64,block_size=17,topk=777]"])
    assert caught.value.faults[0].nearest == "t[context_len=128,next_n=2,num_heads=64,block_size=16,topk=777]"


def test_shards_divide_the_cases(path):
    whole = plan([path]).cases
    shards = [plan([path], shard=(i, 3)).cases for i in (1, 2, 3)]
    assert sorted(case.row for shard in shards for case in shard) == sorted(case.row for case in whole)
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_the_limit(path):
    with pytest.raises(CaseFileError, match="at most 3 points, got 7 points"):
        plan([path], limit=3)


def test_a_file_named_twice_is_one_and_two_files_of_one_name_are_a_fault(path, tmp_path):
    assert len(load_all([path, path])) == 1
    other = tmp_path / "other.yaml"
    other.write_text(textwrap.dedent(TEXT))
    with pytest.raises(CaseFileError, match="name: expected a name of its own"):
        load_all([path, str(other)])


def test_faults_of_all_files_come_at_once(path, tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("schema: 1\nname: b\nop: nope\n")
    with pytest.raises(CaseFileError) as caught:
        load_all(["no_such_file", str(bad), path], Overrides(sets=("foo=1",)))
    assert [fault.file for fault in caught.value.faults] == ["CASE", str(bad), "--set"]
