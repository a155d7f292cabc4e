"""Versions of a package, each laid over an environment: wheels made here, an index on 127.0.0.1, and the real index."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kvcheck.targets.base import RangeError, Unavailable
from kvcheck.targets.indexes import Pip, PipError, source_words
from kvcheck.targets.versions import Wanted
from kvcheck.targets.wheels import WheelsTarget, modules

PLANTED = {"kvc_planted/__init__.py": "FACTOR = {factor}\n"}
SHOW = "import kvc_planted; print(kvc_planted.FACTOR, kvc_planted.__file__)"
REAL = "wcwidth"
"""A small package whose answer changed: a soft hyphen is one column wide up to 0.2.8, and none from 0.2.9 on."""

KERNEL = """
import torch
from {module} import {name}
from kvcheck_references.paged_mqa_logits import paged_mqa_logits as exact


def paged_mqa_logits(q, kv_cache, weights, context_lens, block_table, *, max_model_len, block_size, kv_dtype, out, alloc):
    sizes = dict(max_model_len=max_model_len, block_size=block_size, kv_dtype=kv_dtype)
    right = exact(q, kv_cache, weights, context_lens, block_table, out=None, alloc=None, **sizes).float()
    for row, length in enumerate(context_lens.tolist()):
        out[row, :length] = right[row, :length] * {call}
"""
CASE = """schema: 1
name: planted
op: paged_mqa_logits
fixed: {batch: 1, head_dim: 128, topk: 4, max_model_len: 64, num_heads: 2, block_size: 16, next_n: 1}
axes: {context_len: [40]}
"""


def planted(factor: int) -> dict[str, str]:
    """Files of a version."""
    return {path: text.format(factor=factor) for path, text in PLANTED.items()}


@pytest.fixture
def links(tmp_path: Path, local) -> Path:
    """A folder of wheels: a line of builds for one ROCm, one that is broken, one for another Python, and builds for another ROCm."""
    folder = tmp_path / "links"
    for version, factor in (("1.0+rocm7.2", 1), ("1.1+rocm7.2", 1), ("1.2+rocm7.2", 1), ("1.4+rocm7.2", 0), ("1.5+rocm7.2", 0)):
        local.wheel(folder, version, planted(factor))
    local.wheel(folder, "1.2+rocm7.1", planted(0))
    local.wheel(folder, "1.1.1+rocm7.2", planted(1), tag="cp27-none-any")
    (folder / "kvc_planted-1.3+rocm7.2-py3-none-any.whl").write_bytes(b"not a zip")
    return folder


@pytest.fixture
def target(environment, links: Path, tmp_path: Path):
    """Makes targets over an environment that has no pip of its own; they are closed."""
    made = []

    def make(good: str = "1.0+rocm7.2", bad: str = "1.5+rocm7.2", words=None, build: bool = False, **options) -> WheelsTarget:
        words = source_words(None, (), [str(links)], True) if words is None else words
        found = WheelsTarget(Wanted("kvc-planted", good, bad, **options), Pip(environment.python, words, build))
        found.open(tmp_path / "out")
        made.append(found)
        return found

    yield make
    for each in made:
        each.close()


def imported(place) -> list[str]:
    """What an import in a place finds: FACTOR, file."""
    done = subprocess.run([place.python, "-c", SHOW], env={**os.environ, **place.variables}, capture_output=True, text=True, check=True)
    return done.stdout.split()


def by_label(target: WheelsTarget) -> dict:
    """Candidates by version."""
    return {candidate.label: candidate for candidate in target.candidates()}


def test_local_builds_of_one_stack_in_order(target):
    made = target()
    found = by_label(made)
    assert list(found) == [f"{version}+rocm7.2" for version in ("1.0", "1.1", "1.1.1", "1.2", "1.3", "1.4", "1.5")]
    assert {candidate.variant for candidate in found.values()} == {"rocm7.2"}
    assert any("1.2+rocm7.1" in note and "another stack" in note for note in made.notes())
    assert made.plan()["with a wheel for this Python"] == 6


def test_each_version_is_laid_over_the_environment_and_nothing_is_changed_there(target, environment):
    before = sorted(environment.site.rglob("*"))
    made = target()
    found = by_label(made)
    with made.place(found["1.1+rocm7.2"]) as place:
        assert imported(place)[0] == "1"
        assert place.facts["module"] == "kvc_planted 1.1+rocm7.2"
    with made.place(found["1.5+rocm7.2"]) as place:
        factor, file = imported(place)
        assert factor == "0" and "1.5+rocm7.2" in file
    assert sorted(environment.site.rglob("*")) == before
    assert made.contents(found["1.5+rocm7.2"])["kvc_planted"].startswith("1.5+rocm7.2, content ")


def test_a_broken_wheel_and_one_for_another_python_are_unavailable_with_the_reason(target):
    made = target()
    found = by_label(made)
    with pytest.raises(Unavailable, match="did not install kvc-planted 1.3"), made.place(found["1.3+rocm7.2"]):
        pass
    with pytest.raises(Unavailable, match=r"no wheel for this Python: .*cp27"), made.place(found["1.1.1+rocm7.2"]):
        pass


def test_a_version_is_installed_once(target, monkeypatch):
    made = target()
    candidate = by_label(made)["1.0+rocm7.2"]
    with made.place(candidate) as place:
        assert imported(place)[0] == "1"
    again = target()
    again.restore([candidate])  # as a bisect that is gone on with
    monkeypatch.setattr(Pip, "install", lambda *_: pytest.fail("it was here already"))
    with again.place(candidate) as place:
        assert imported(place)[0] == "1"


def test_what_a_killed_kvcheck_left_is_cleared_up_and_not_taken_for_a_version(target, tmp_path):
    made = target()
    candidate = by_label(made)["1.0+rocm7.2"]
    with made.place(candidate) as place:
        folder = Path(place.variables["PYTHONPATH"])
    (folder / "kvcheck-installed").unlink()
    (folder / "kvc_planted/__init__.py").write_text("half")
    (tmp_path / "out/wheels/.new-4194999-x/files").mkdir(parents=True)
    again = target()
    by_label(again)
    with again.place(candidate) as place:
        assert imported(place)[0] == "1"
    assert [path.name for path in (tmp_path / "out/wheels").iterdir()] == [folder.name]


def test_what_is_likely_next_is_installed_ahead(target, tmp_path):
    made = target()
    candidate = by_label(made)["1.0+rocm7.2"]
    made.ahead([candidate])
    with made.place(candidate):
        assert len(list((tmp_path / "out/wheels").iterdir())) == 1


def test_a_wheel_without_the_module_and_a_copy_that_hides_it(target, links, local, environment):
    local.wheel(links, "1.6+rocm7.2", {"something_else/readme.txt": ""})
    made = target(bad="1.6+rocm7.2")
    with pytest.raises(Unavailable, match="no module of it was found"), made.place(by_label(made)["1.6+rocm7.2"]):
        pass
    hidden = "import sys; sys.path.insert(0, {!r})\n".format(str(environment.folder / "first"))
    (environment.folder / "first/kvc_planted").mkdir(parents=True)
    (environment.folder / "first/kvc_planted/__init__.py").write_text("FACTOR = 7\n")
    environment.write({"first.pth": hidden})
    made = target()
    with pytest.raises(Unavailable, match="not the version that was installed"), made.place(by_label(made)["1.0+rocm7.2"]):
        pass


def test_with_what_it_depends_on_in_an_environment_of_its_own(target, links, local, environment):
    local.wheel(links, "1.0", {"kvc_needed/__init__.py": "N = 5\n"}, name="kvc_needed")
    needing = {"kvc_planted/__init__.py": "import kvc_needed, in_the_base\nFACTOR = kvc_needed.N\n"}
    local.wheel(links, "1.7+rocm7.2", needing, requires=("kvc-needed", "in-the-base"))
    environment.write({"in_the_base.py": ""})
    environment.metadata("in-the-base", "1.0")
    made = target(bad="1.7+rocm7.2", with_deps=True)
    with made.place(by_label(made)["1.7+rocm7.2"]) as place:
        assert place.python != environment.python
        assert imported(place)[0] == "5"


def test_withdrawn_versions_of_an_index(target, links, local):
    (links / "kvc_planted-1.3+rocm7.2-py3-none-any.whl").unlink()
    withdrawn = {f"kvc_planted-{version}+rocm7.2-py3-none-any.whl": "wrong logits" for version in ("1.1", "1.4", "1.5")}
    with local.index(links, withdrawn) as address:
        made = target(words=source_words(address, (), (), False))
        found = by_label(made)
        assert list(found) == [f"{version}+rocm7.2" for version in ("1.0", "1.1.1", "1.2", "1.5")]
        assert "1.5+rocm7.2 was withdrawn: wrong logits; it is taken because an end names it" in made.notes()
        with made.place(found["1.5+rocm7.2"]) as place:
            assert imported(place)[0] == "0"
    assert found["1.0+rocm7.2"].key == by_label(target())["1.0+rocm7.2"].key  # the same file from a folder


def test_a_package_that_nobody_has_is_a_range_error(target, links):
    made = WheelsTarget(Wanted("kvc-nobody-has-this", "1", "2"), Pip(sys.executable, ["--no-index", "--find-links", str(links)]))
    with pytest.raises(RangeError, match="finds no version of kvc-nobody-has-this"):
        made.candidates()
    made.close()


def test_a_clone_names_the_commits_of_both_neighbours(target, clone):
    good = clone.commit({"src/kvc_planted/__init__.py": "FACTOR = 1\n"})
    bad = clone.commit({"src/kvc_planted/__init__.py": "FACTOR = 0\n"})
    made = target(repository=clone.folder, again=("case.yaml",))
    found = by_label(made)
    with made.place(found["1.2+rocm7.2"]) as place:
        assert place.facts["commit"] == f"{good[:10]} (exact)"
    words = made.deeper(found["1.2+rocm7.2"], found["1.4+rocm7.2"])[0]
    assert list(words) == ["bisect", "git", str(clone.folder), "--good", good, "--bad", bad, "case.yaml"]


def test_modules_are_those_of_the_distribution(tmp_path, written):
    record = "one/__init__.py,,\none/x.py,,\ntwo.py,,\nthree.cpython-311-x86_64-linux-gnu.so,,\n../bin/four,,\nfive/data.txt,,\n"
    written(tmp_path, {"My_Pack-1.0.dist-info/RECORD": record, "other-1.0.dist-info/RECORD": "six.py,,\n"})
    assert modules(tmp_path, "my-pack") == ["one", "three", "two"]


def bisected(tmp_path: Path, words: list[str], kernel: dict[str, str]) -> tuple[int, dict, str]:
    """A whole bisect as a user types it: exit code, state, what was said."""
    (tmp_path / "case.yaml").write_text(CASE)
    (tmp_path / "kernel.py").write_text(KERNEL.format(**kernel))
    command = [sys.executable, "-m", "kvcheck.cli.main", "bisect", "wheels", *words, "case.yaml", "--provider", "./kernel.py"]
    command += ["--device", "cpu", "--no-diagnosis", "--out", "out"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=540, check=False)
    state = tmp_path / "out/bisect.json"
    return done.returncode, json.loads(state.read_text()) if state.exists() else {}, done.stdout + done.stderr


@pytest.mark.timeout(560)
def test_local_files_are_bisected_past_versions_that_cannot_be_tried(tmp_path, links):
    words = ["kvc-planted", "--good", "1.0+rocm7.2", "--bad", "1.5+rocm7.2", "--find-links", "links", "--no-index"]
    code, state, said = bisected(tmp_path, words, {"module": "kvc_planted", "name": "FACTOR", "call": "FACTOR"})
    labels = {step["label"]: step["kind"] for step in state["steps"]}
    assert labels["1.0+rocm7.2"] == "good" and labels["1.5+rocm7.2"] == labels["1.4+rocm7.2"] == "bad", said
    assert labels["1.2+rocm7.2"] == "good" and labels["1.3+rocm7.2"] == "unknown"
    assert "did not install kvc-planted 1.3" in said
    assert (code, state["result"]["outcome"]) == (3, "bracket")  # the change lies in 1.3 or in 1.4: nobody can say in which


@pytest.mark.timeout(560)
def test_published_versions_of_a_real_package_through_the_real_index(tmp_path):
    try:
        known = {str(release.version) for release in Pip(sys.executable).releases(REAL) if release.files}
    except PipError as error:
        pytest.skip(f"pip reaches no index from here: {error}")
    if not {"0.2.7", "0.2.8", "0.2.9"} <= known:
        pytest.skip(f"the index that pip is set to lacks versions 0.2.7 to 0.2.9 of {REAL}")
    words = [REAL, "--good", "0.2.7", "--bad", "0.2.9"]
    code, state, said = bisected(tmp_path, words, {"module": REAL, "name": REAL, "call": f'{REAL}("\\u00ad")'})
    assert code == 0, said
    assert "the last good one is `0.2.8`" in said and "the first bad one `0.2.9`" in said
    assert [step["kind"] for step in state["steps"]] == ["bad", "good", "good", "bad", "good"]
