"""The case files that come with kvcheck: valid, found by name, with the points that are promised."""

from __future__ import annotations

import shutil

import pytest

from kvcheck.agent import specs
from kvcheck.cases import builtin, listing, sweep
from kvcheck.cases.errors import CaseFileError
from kvcheck.cases.load import load
from kvcheck.cases.plan import plan


def points(ref: str) -> dict[str, int]:
    return {c.name: len(sweep.expand(c, ref).points) for c in load(builtin.find(ref).path, ref)}


@pytest.mark.parametrize("ref", builtin.names())
def test_every_file_is_valid_and_says_why(ref):
    for case_file in load(builtin.root() / f"{ref}.yaml", ref):
        assert case_file.why
        assert case_file.providers[0] == "triton", "our own kernel is the control of every file"


def test_the_main_job_has_about_fifty_points():
    assert 44 <= points("paged_mqa")["paged_mqa"] <= 55


def test_smoke_is_ten_points():
    ids = {case.id for case in plan(["smoke"]).cases}
    assert ids == {
        f"smoke[context_len={n},block_size={b},next_n={j}]" for n in (1, 64, 257) for b in (1, 16) for j in (1, 2) if (n, j) != (1, 2)
    }
    assert {case.params["num_heads"] for case in plan(["smoke"]).cases} == {32}


def test_the_seed_report_is_two_kinds_of_case():
    assert points("seeds/vllm_39303") == {"vllm_39303_as_reported": 6, "vllm_39303_well_formed": 7}
    reported, formed = load(builtin.find("seeds/vllm_39303").path)
    same = ("batch", "next_n", "num_heads", "head_dim", "block_size", "block_table", "max_model_len", "topk")
    assert [reported.base()[axis] for axis in same] == [1, 1, 32, 128, 1, "contiguous", 202752, 2048]
    assert [formed.base()[axis] for axis in same] == [reported.base()[axis] for axis in same]
    assert reported.base()["values"] == "random_bytes"
    assert formed.base()["values"] == "gaussian"
    for case_file in (reported, formed):
        assert all(blocks == length + 16 for length, blocks in case_file.factors[0].values)
    assert reported.values_of("context_len") == (1024, 2048, 2049, 3000, 4096, 8192)


def test_the_template_explains_every_key():
    from kvcheck.cases.schema import KEYS

    text = (builtin.root() / "_template.yaml").read_text()
    assert [key for key in KEYS if f"\n{key}:" not in text and f"`{key}: 20`" not in text] == []
    (case_file,) = load(builtin.root() / "_template.yaml")
    assert case_file.threshold
    assert case_file.include
    assert case_file.exclude


@pytest.mark.parametrize("ref", [ref for ref in builtin.names() if ref.startswith("regressions/")])
def test_a_regression_tells_its_story_and_names_the_fault_that_carries_it(ref):
    header = (builtin.root() / f"{ref}.yaml").read_text().split("schema:")[0]
    for word in ("Background:", "Mechanism:", "Why it was missed:", "Must show:"):
        assert word in header
    for name in header.split("`fault:")[1:]:
        assert name.split("`")[0].partition("=")[0] in specs.names("faults")


@pytest.mark.parametrize(
    ("text", "ref"),
    [
        ("smoke", "smoke"),
        ("smoke.yaml", "smoke"),
        ("seeds/vllm_39303", "seeds/vllm_39303"),
        ("vllm_39303", "seeds/vllm_39303"),
        ("_template", "_template"),
    ],
)
def test_names_without_folder_or_suffix(text, ref, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = builtin.find(text)
    assert (found.ref, found.path) == (ref, builtin.root() / f"{ref}.yaml")


def test_a_path_wins_over_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(builtin.root() / "smoke.yaml", tmp_path / "smoke.yaml")
    (tmp_path / "smoke").mkdir()
    assert builtin.find("smoke.yaml").path.resolve() == tmp_path / "smoke.yaml"
    assert builtin.find("smoke").ref == "smoke"
    assert builtin.find(str(tmp_path / "smoke.yaml")).ref == str(tmp_path / "smoke.yaml")


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("smoek", "smoke"),
        ("paged_mka.yaml", "paged_mqa"),
        ("vllm_39333", "seeds/vllm_39303"),
        ("", None),
        ("x" * 5000, None),
        ("a\0b", None),
    ],
)
def test_an_unknown_name_names_the_nearest(text, near):
    with pytest.raises(CaseFileError) as caught:
        builtin.find(text)
    assert caught.value.faults[0].nearest == near
    assert len(str(caught.value)) < 400


def test_an_ambiguous_name_lists_what_it_may_mean(tmp_path, monkeypatch):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.yaml").touch()
    monkeypatch.setattr(builtin, "root", lambda: tmp_path)
    builtin.names.cache_clear()
    try:
        with pytest.raises(CaseFileError, match="one case file: a/same or b/same, got 'same'"):
            builtin.find("same")
        assert builtin.find("b/same").ref == "b/same"
    finally:
        builtin.names.cache_clear()


def test_a_folder_is_no_case_file(tmp_path):
    with pytest.raises(CaseFileError, match="got the folder"):
        builtin.find(str(tmp_path))


def test_the_built_in_folder_of_a_wheel_comes_first(tmp_path, monkeypatch):
    package = tmp_path / "kvcheck"
    package.mkdir()
    monkeypatch.setattr(builtin.kvcheck, "__file__", str(package / "__init__.py"))
    assert builtin.root() == tmp_path.parent / "cases"
    (package / "builtin").mkdir()
    assert builtin.root() == package / "builtin"


def test_the_list_shows_where_each_file_is():
    entries = {entry.name: entry for entry in listing.entries()}
    assert entries["smoke"].points == 10
    assert entries["smoke"].path.endswith("smoke.yaml")
    assert entries["vllm_39303_well_formed"].ref == "seeds/vllm_39303"
    assert entries["vllm_39303_well_formed"].line > 1
    assert not any(entry.fault for entry in entries.values())
    assert "template" not in entries


def test_the_list_shows_a_broken_file_and_goes_on(tmp_path, monkeypatch):
    shutil.copy(builtin.root() / "smoke.yaml", tmp_path / "smoke.yaml")
    (tmp_path / "broken.yaml").write_text("schema: 1\nname: b\nop: nope\n")
    monkeypatch.setattr(builtin, "root", lambda: tmp_path)
    builtin.names.cache_clear()
    try:
        broken, smoke = listing.entries()
        assert "got 'nope'" in broken.fault
        assert smoke.points == 10
    finally:
        builtin.names.cache_clear()
