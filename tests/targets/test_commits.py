"""Which commits hold exactly what is installed, against repositories made by the test."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess

import pytest

from kvcheck.execute.errors import UsageError
from kvcheck.targets.contents import ask_python, brief, settle
from kvcheck.targets.trees import Repository

from .aiter_like import INIT, commit_of


def checked_out(clone, environment, revision):
    """Installs a commit's package."""
    clone.git("checkout", "-q", revision)
    clone.install("aiter", environment.site, "aiter")
    clone.git("checkout", "-q", "main")


def test_one_commit_that_has_every_file_is_exact(environment, clone, history):
    checked_out(clone, environment, history[3])
    environment.metadata("amd-aiter", "0.1.0")
    found = commit_of(environment, clone)
    assert (found["sure"], found["commit"], found["matched"], found["total"]) == ("exact", history[3], 3, 3)
    assert found["others"] == found["others_total"] == 1


def test_commits_with_the_same_package_are_all_named_and_none_is_chosen(environment, clone, history):
    checked_out(clone, environment, history[1])
    found = commit_of(environment, clone)
    assert (found["sure"], found["count"], found["commit"]) == ("candidates", 2, None)
    assert (found["first"], found["last"], found["commits"]) == (history[1], history[2], history[1:3])
    assert "2 commits have 2 of 2 Python files" in found["sentence"]


def test_metadata_chooses_among_candidates_but_not_against_the_content(environment, clone, history):
    checked_out(clone, environment, history[1])
    environment.metadata("amd-aiter", "0.1.0", {"direct_url.json": json.dumps({"vcs_info": {"commit_id": history[2]}, "url": "x"})})
    assert commit_of(environment, clone)["commit"] == history[2]
    (environment.site / "aiter/ops/mha.py").write_text("a = 3\n")
    (environment.site / "aiter/ops/new.py").write_text("")
    found = commit_of(environment, clone)
    assert (found["sure"], found["commit"]) == ("exact", history[3])


def test_a_changed_file_is_not_sure_and_is_named(environment, clone, history):
    checked_out(clone, environment, history[3])
    (environment.site / "aiter/ops/mha.py").write_text("a = 4\n")
    found = commit_of(environment, clone)
    assert (found["sure"], found["matched"], found["total"], found["differ"]) == ("nearest", 2, 3, ["ops/mha.py"])
    assert found["commit"] == history[3]


def test_a_changed_kernel_or_configuration_is_not_sure_either(environment, clone, history):
    checked_out(clone, environment, history[3])
    (environment.site / "aiter/configs/tuned.csv").write_text("2\n")
    found = commit_of(environment, clone)
    assert (found["sure"], found["others_differ"], found["matched"]) == ("nearest", ["aiter/configs/tuned.csv"], 3)


def test_a_file_that_no_commit_has_is_not_sure_unless_a_build_writes_it(environment, clone, history):
    checked_out(clone, environment, history[3])
    environment.write({"aiter/_version.py": "__version__ = '0.1'\n"})
    assert commit_of(environment, clone)["sure"] == "exact"
    environment.write({"aiter/ops/planted.py": ""})
    found = commit_of(environment, clone)
    assert (found["sure"], found["strange"]) == ("nearest", ["_version.py", "ops/planted.py"])


def test_files_that_are_not_installed_do_not_count_as_the_commit(environment, clone, history):
    """The same matched files in two commits: the one with fewer files that are missing here is meant."""
    only = clone.commit({"aiter/ops/mha.py": "a = 2\n"})
    checked_out(clone, environment, history[1])
    found = commit_of(environment, clone)
    assert only not in found["commits"] and found["commits"] == history[1:3]


def test_a_tag_on_a_rewritten_history_is_found_by_content(environment, clone, history):
    clone.git("checkout", "-q", "--orphan", "old")
    rewritten = clone.commit({})
    clone.git("tag", "-a", "v1", "-m", "v1")
    clone.git("checkout", "-q", "main")
    clone.git("branch", "-D", "old")
    checked_out(clone, environment, history[3])
    found = commit_of(environment, clone)
    assert set(found["commits"]) == {history[3], rewritten}
    assert (found["tags"], found["commit"], found["sure"]) == (["v1"], history[3], "candidates")
    assert "1 of them in HEAD's history" in found["sentence"]


def test_a_package_that_was_moved_in_the_repository_is_found(environment, clone, history):
    for path in ("__init__.py", "ops/mha.py", "ops/new.py", "configs/tuned.csv"):
        clone.commit({f"aiter/{path}": None, f"python/aiter/{path}": (clone.folder / "aiter" / path).read_text()})
    last = clone.commit({"python/aiter/ops/mha.py": "a = 5\n"})
    clone.install("python/aiter", environment.site, "aiter")
    assert commit_of(environment, clone)["commit"] == last
    shutil.rmtree(environment.site / "aiter")
    checked_out(clone, environment, history[3])
    found = commit_of(environment, clone)
    assert history[3] in found["commits"] and found["matched"] == 3


def test_sources_beside_the_package_tell_commits_apart(environment, clone):
    clone.commit({**INIT, "csrc/a.cu": "1\n"})
    second = clone.commit({"csrc/a.cu": "2\n"})
    clone.install("aiter", environment.site, "aiter")
    environment.write({"aiter_meta/csrc/a.cu": "2\n", "aiter_meta/3rdparty/x.h": "of another repository\n"})
    found = commit_of(environment, clone)
    assert (found["sure"], found["commit"], found["others"], found["others_total"]) == ("exact", second, 2, 2)


def test_a_bare_clone_and_a_merge(environment, clone, history, tmp_path):
    clone.git("checkout", "-q", "-b", "side", history[0])
    clone.commit({"aiter/side.py": "s = 1\n"})
    clone.git("checkout", "-q", "main")
    clone.git("merge", "-q", "--no-ff", "-m", "merge", "side")
    merge = clone.git("rev-parse", "HEAD")
    clone.install("aiter", environment.site, "aiter")
    bare = tmp_path / "bare"
    subprocess.run(["git", "clone", "-q", "--bare", str(clone.folder), str(bare)], check=True)
    contents = ask_python(environment.python)
    settle(contents, {"aiter": bare})
    assert brief(contents)["aiter"]["commit"] == merge
    assert contents["packages"]["aiter"]["commit"]["sure"] == "exact"


def test_a_repository_of_another_package_is_said_to_have_none_of_it(environment, clone):
    clone.commit({"other/__init__.py": "", "other/x.py": ""})
    environment.write(INIT)
    found = commit_of(environment, clone)
    assert (found["sure"], found["commit"]) == ("none", None)
    assert "has no such package" in found["sentence"]


def test_scores_by_plumbing_are_those_of_the_files(clone, history):
    """Against brute force: every tree's files, listed one by one."""
    repository = Repository(clone.folder)
    wanted = {**repository.paths(history[1]), "aiter/gone.py": "0" * 40}
    trees = [commit.tree for commit in repository.commits()]
    scores, known = repository.scores(trees, wanted, ".py")
    for tree in trees:
        has = repository.paths(tree)
        assert scores[tree].matched == sum(has.get(path) == sha for path, sha in wanted.items())
        assert scores[tree].more == sum(path.endswith(".py") and path not in wanted for path in has)
    assert known == set(wanted) - {"aiter/gone.py"}


def test_blobs_are_git_s(environment, clone, history):
    checked_out(clone, environment, history[3])
    files = ask_python(environment.python)["packages"]["aiter"]["files"]
    assert files["ops/mha.py"] == clone.git("rev-parse", "HEAD:aiter/ops/mha.py")
    assert files["ops/new.py"] == hashlib.sha1(b"blob 0\0").hexdigest()


def test_a_folder_without_a_repository_is_refused(tmp_path):
    with pytest.raises(UsageError, match="expected a git repository"):
        Repository(tmp_path)
