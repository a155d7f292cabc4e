"""What an environment really holds: the copy an import takes, its version, and its commit told by content."""

from __future__ import annotations

import ast
import glob
import json
import os
import shutil
from pathlib import Path

import pytest

import kvcheck.agent
from kvcheck.execute.errors import StartError
from kvcheck.targets.contents import ask_python, brief, find_environment, summary
from kvcheck.targets.differences import differences

from .aiter_like import INIT, asked, commit_of


def editable(environment, clone, name="amd-aiter"):
    """An editable install as pip leaves it."""
    environment.write({"__editable__.pth": f"{clone.folder}\n"})
    url = json.dumps({"url": f"file://{clone.folder}", "dir_info": {"editable": True}})
    environment.metadata(name, "0.1.0", {"direct_url.json": url})


@pytest.mark.parametrize("version", ["2", "4"])
def test_a_clean_editable_install_is_its_head(environment, clone, history, version):
    editable(environment, clone)
    clone.git("update-index", "--index-version", version)
    found = asked(environment)["packages"]["aiter"]
    assert (found["commit"]["sure"], found["commit"]["commit"]) == ("exact", history[3])
    assert found["git"]["changed"] == [] and found["version"] == "0.1.0" and not found["problems"]


def test_with_a_repository_head_decides_among_candidates(environment, clone, history):
    editable(environment, clone)
    clone.git("checkout", "-q", history[1])
    found = commit_of(environment, clone)
    assert (found["sure"], found["commit"], found["count"]) == ("exact", history[1], 2)


def test_a_changed_editable_install_is_not_its_head(environment, clone, history):
    editable(environment, clone)
    (clone.folder / "aiter/ops/mha.py").write_text("a = 9\n")
    found = commit_of(environment)
    assert (found["sure"], found["differ"]) == ("nearest", ["aiter/ops/mha.py"])
    assert "1 changed file" in found["sentence"]
    clone.git("add", "-A")
    found = commit_of(environment)
    assert found["sure"] == "nearest" and "staged changes" in found["sentence"]


def test_without_git_inside_a_checkout_s_head_is_a_hint(environment, clone, history, tmp_path):
    editable(environment, clone)
    (tmp_path / "bin").mkdir()
    found = commit_of(environment, PATH=str(tmp_path / "bin"))
    assert (found["sure"], found["commit"]) == ("hint", history[3])


def test_a_repository_around_an_environment_is_not_the_package_s(environment, clone, history):
    """An untracked package inside somebody's checkout, on the path by a .pth."""
    (clone.folder / ".gitignore").write_text("build\n")
    clone.commit({})
    for path, text in INIT.items():
        (clone.folder / "build" / path).parent.mkdir(parents=True, exist_ok=True)
        (clone.folder / "build" / path).write_text(text)
    environment.write({"here.pth": f"{clone.folder}/build\n"})
    found = asked(environment)["packages"]["aiter"]
    assert found["git"] is None and found["commit"]["sure"] == "none"


def test_an_empty_namespace_package_is_a_problem_and_hides_nothing_in_silence(environment, tmp_path, written):
    written(tmp_path / "work", {"aiter/readme.txt": ""})
    environment.metadata("amd-aiter", "0.1.0")
    found = asked(environment, PYTHONPATH=str(tmp_path / "work"))["packages"]["aiter"]
    assert found["namespace"] and found["file"] is None
    assert any("aiter.__file__ is None" in text for text in found["problems"])
    environment.write(INIT)  # a real package further down the path wins over it
    found = asked(environment, PYTHONPATH=str(tmp_path / "work"))["packages"]["aiter"]
    assert not found["namespace"] and found["folder"] == str(environment.site / "aiter")


def test_a_namespace_package_hides_an_editable_install_that_a_finder_would_find(environment, clone, history, tmp_path, written):
    """A folder named as the package on the path comes before the finder of an editable install, which has the real one."""
    finder = """import sys
from importlib.machinery import PathFinder


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, [{place!r}]) if name == "aiter" else None


sys.meta_path.append(Finder)
"""
    environment.write({"finder_of_aiter.py": finder.format(place=str(clone.folder)), "finder.pth": "import finder_of_aiter\n"})
    url = json.dumps({"url": f"file://{clone.folder}", "dir_info": {"editable": True}})
    environment.metadata("amd-aiter", "0.1.0", {"direct_url.json": url})
    found = asked(environment)["packages"]["aiter"]
    assert (found["commit"]["sure"], found["commit"]["commit"], found["problems"]) == ("exact", history[3], [])
    written(tmp_path / "work", {"aiter/readme.txt": ""})
    found = asked(environment, PYTHONPATH=str(tmp_path / "work"))["packages"]["aiter"]
    assert found["namespace"]
    assert f"the real package in {clone.folder}/aiter is hidden by it" in found["problems"]


def test_an_install_of_setup_py_develop_is_its_checkout(environment, clone, history, written):
    written(clone.folder, {"amd_aiter.egg-info/PKG-INFO": "Metadata-Version: 1.0\nName: amd-aiter\nVersion: 0.1.3\n"})
    environment.write({"amd-aiter.egg-link": f"{clone.folder}\n.", "easy-install.pth": f"{clone.folder}\n"})
    found = asked(environment)["packages"]["aiter"]
    assert (found["version"], found["commit"]["sure"], found["commit"]["commit"]) == ("0.1.3", "exact", history[3])
    assert found["problems"] == []


def test_the_copy_on_pythonpath_wins_and_the_metadata_of_the_other_is_not_its_version(environment, tmp_path, written):
    environment.write(INIT)
    environment.metadata("amd-aiter", "0.1.0")
    written(tmp_path / "overlay", {"aiter/__init__.py": "__version__ = '9.9'\n"})
    found = asked(environment, PYTHONPATH=str(tmp_path / "overlay"))["packages"]["aiter"]
    assert found["folder"] == str(tmp_path / "overlay/aiter")
    assert found["version"] == "9.9"
    assert [copy["from"] for copy in found["copies"]] == ["PYTHONPATH", str(environment.site)]
    assert any("hides" in text for text in found["problems"])
    assert any("is not that of the copy imported" in text for text in found["problems"])


def test_metadata_without_a_package_and_a_package_without_metadata(environment):
    environment.metadata("vllm", "0.9.0")
    environment.write({"sglang/__init__.py": "", "sglang/version.py": "__version__ = '0.5.2'\n"})
    contents = asked(environment)
    assert contents["packages"]["vllm"]["file"] is None
    assert contents["packages"]["sglang"]["version"] == "0.5.2"
    assert "vllm: its metadata is here, the package is not: it cannot be imported" in contents["problems"]
    assert "sglang: it has no metadata: it was copied here, not installed" in contents["problems"]
    assert "aiter" not in contents["packages"]


def test_a_version_that_metadata_does_not_have_is_a_problem(environment):
    environment.write({"aiter/__init__.py": "", "aiter/_version.py": "__version__ = version = '0.5.9'\n"})
    environment.metadata("amd-aiter", "0.1.0+rocm7.0")
    assert asked(environment)["problems"] == ["aiter: it says version 0.5.9 in _version.py, and its metadata 0.1.0+rocm7.0"]


def test_torch_s_build_string_and_the_stack_come_from_files(environment, tmp_path, written):
    text = "__version__ = '2.9.0+rocm7.0.git123'\nhip: Optional[str] = '7.0.51831'\ncuda: Optional[str] = None\ngit_version = '%s'\n" % (
        "ab" * 20
    )
    environment.write({"torch/__init__.py": "raise ImportError('never imported')\n", "torch/version.py": text})
    environment.metadata("torch", "2.9.0")
    written(tmp_path / "rocm", {".info/version": "7.0.2-56\n", "lib/libamdhip64.so.7.2.53211": ""})
    (tmp_path / "rocm/lib/libamdhip64.so").symlink_to("libamdhip64.so.7.2.53211")
    contents = asked(environment, ROCM_PATH=str(tmp_path / "rocm"))
    assert contents["packages"]["torch"]["version"] == "2.9.0+rocm7.0.git123"
    assert (contents["rocm"]["version"], contents["rocm"]["torch_hip"], contents["cuda"]["torch_cuda"]) == ("7.0.2-56", "7.0.51831", None)
    assert contents["rocm"]["hip_runtime"] == "libamdhip64.so.7.2.53211"
    assert brief(contents)["torch"]["sure"] == "hint"
    assert summary(contents)["rocm"] == "7.0.2-56"


def test_the_commit_in_a_version_is_a_hint(environment):
    environment.write({"vllm/__init__.py": ""})
    environment.metadata("vllm", "0.11.0rc2.dev17+gabc1234de.rocm700")
    found = brief(asked(environment))["vllm"]
    assert (found["sure"], found["commit"]) == ("hint", "abc1234de")


def test_the_digest_covers_compiled_files_and_not_bytecode(environment):
    environment.write({**INIT, "aiter/core.so": "1"})
    one = asked(environment)
    environment.write({"aiter/__pycache__/x.pyc": "1"})
    assert brief(asked(environment))["aiter"]["digest"] == brief(one)["aiter"]["digest"]
    environment.write({"aiter/core.so": "2"})
    other = asked(environment)
    assert brief(other)["aiter"]["digest"] != brief(one)["aiter"]["digest"]
    rows = differences(one, other)
    assert [(row["name"], row["files"], row["note"]) for row in rows] == [("aiter", ["core.so"], "other content under the same name")]


def test_differences_name_versions_and_other_distributions(environment):
    environment.write(INIT)
    environment.metadata("amd-aiter", "0.1.0")
    one = asked(environment)
    shutil.rmtree(environment.site / "amd_aiter-0.1.0.dist-info")
    environment.metadata("amd-aiter", "0.2.0")
    environment.metadata("numpy", "2.0.0")
    rows = differences(one, asked(environment))
    assert [(row["name"], row["before"], row["after"]) for row in rows] == [("aiter", "0.1.0", "0.2.0"), ("numpy", "not there", "2.0.0")]
    assert rows[0]["note"] == "the same content under another name"


def test_environments_are_found_by_python_folder_and_name(environment, tmp_path):
    assert find_environment(str(environment.folder)) == str(environment.folder / "bin/python3")
    assert find_environment(environment.python) == environment.python
    assert find_environment("docker.io/library/python3") is None and find_environment("rocm/vllm:nightly") is None
    assert find_environment(str(tmp_path)) is None


def test_a_python_that_does_not_answer_is_said(tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho some text\necho no such thing >&2\nexit 3\n")
    os.chmod(broken, 0o755)
    with pytest.raises(StartError, match=r"exit status 3.*no such thing"):
        ask_python(str(broken))


@pytest.mark.parametrize("version", ["3.7", "3.8", "3.9", "3.10", "3.12", "3.13"])
def test_other_pythons_answer_too(version, tmp_path, written):
    kept = sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python")))
    python = next(filter(None, [*kept, shutil.which(f"python{version}")]), None)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    written(tmp_path, {**INIT, "amd_aiter-0.1.7.dist-info/METADATA": "Name: amd-aiter\nVersion: 0.1.7\n"})
    contents = ask_python(python, variables={"PYTHONPATH": str(tmp_path)})
    assert contents["python"]["version"].startswith(f"{version}.")
    assert contents["packages"]["aiter"]["version"] == "0.1.7" and len(contents["packages"]["aiter"]["files"]) == 3


def test_what_looks_inside_is_read_by_python_3_8():
    files = sorted((Path(kvcheck.agent.__file__).parent / "contents").glob("*.py"))
    assert len(files) >= 5
    for path in files:
        ast.parse(path.read_text(), feature_version=(3, 8))
