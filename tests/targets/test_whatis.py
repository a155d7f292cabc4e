"""`kvcheck whatis` as a user types it: what it prints, what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from kvcheck.flow import whatis as flow
from kvcheck.flow.options import UsageError
from kvcheck.report import whatis as words


def whatis(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command."""
    command = [sys.executable, "-m", "kvcheck.cli.main", "whatis", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def installed(environment, clone):
    """An environment with the second of three commits of a package, and metadata of another version; the commits."""
    files = {"aiter/__init__.py": "", "aiter/ops.py": "a = 1\n"}
    commits = [clone.commit(files), clone.commit({"aiter/ops.py": "a = 2\n"}), clone.commit({"aiter/ops.py": "a = 3\n"})]
    clone.git("checkout", "-q", commits[1])
    clone.install("aiter", environment.site, "aiter")
    clone.git("checkout", "-q", "main")
    environment.metadata("amd-aiter", "0.1.7")
    return commits


def test_the_table_has_one_line_a_package_with_how_sure_it_is(environment, clone, installed):
    done = whatis(environment.folder, "--repo", f"aiter={clone.folder}")
    assert (done.returncode, done.stderr) == (0, "")
    row = next(line for line in done.stdout.splitlines() if line.strip().startswith("aiter"))
    assert row.split()[:4] == ["aiter", "0.1.7", installed[1][:10], "exact"]
    assert "1 commit has 2 of 2 Python files" in row


def test_without_a_repository_it_says_that_nothing_is_known(environment, installed):
    done = whatis(environment.folder)
    assert "nothing names a commit; a repository would: --repo" in done.stdout
    assert "exact" not in done.stdout


def test_two_environments_are_compared(environment, clone, installed, tmp_path, written):
    (environment.folder / "other").mkdir()
    written(environment.folder / "other", {"aiter/__init__.py": "", "aiter/ops.py": "a = 3\n"})
    other = tmp_path / "with-overlay"
    other.write_text(f'#!/bin/sh\nPYTHONPATH={environment.folder}/other exec {environment.python} "$@"\n')
    other.chmod(0o755)
    done = whatis(environment.folder, other, "--repo", f"aiter={clone.folder}")
    assert done.returncode == 0, done.stderr
    assert f"aiter: 0.1.7 at {installed[1][:10]} (exact) -> no version at {installed[2][:10]} (exact)" in done.stdout
    assert "1 file differs: ops.py" in done.stdout
    assert "Problems:" in done.stdout and "hides" in done.stdout
    same = whatis(environment.folder, environment.python)
    assert "hold the same" in same.stdout


def test_json_has_everything_but_the_hashes_of_single_files(environment, clone, installed):
    done = whatis(environment.folder, "--repo", f"aiter={clone.folder}", "--format", "json")
    report = json.loads(done.stdout)
    package = report["subjects"][0]["contents"]["packages"]["aiter"]
    assert (report["schema"], report["subjects"][0]["kind"], package["files"]) == ("kvcheck.whatis/1", "environment", 2)
    assert (package["commit"]["sure"], package["commit"]["commit"]) == ("exact", installed[1])
    assert len(package["digest"]) == 64


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{env}", "--format", "jsn"], "--format: expected table or json, got 'jsn'; nearest: json"),
        (["{env}", "--repo", "aiter"], "--repo: expected NAME=DIR"),
        (["{env}", "--repo", "aiter=/not/there"], "expected a folder with a git repository, got '/not/there', which is not there"),
        (["{env}", "--repo", "aiter={env}"], "expected a git repository"),
        (["{env}", "--repo", "aitr={clone}"], "nearest: aiter"),
        (["/not/there"], "got '/not/there', which is not there"),
        (["{clone}"], "which is none of these"),
        (["{env}", "{env}", "{env}"], "or two to compare, got 3"),
        (["{env}", "--mount", "/not/there"], "--mount: expected DIR or DIR:AT with a DIR that is there"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(environment, clone, installed, arguments, message):
    done = whatis(*(text.format(env=environment.folder, clone=clone.folder) for text in arguments))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_python_that_cannot_answer_is_exit_3(tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 4\n")
    broken.chmod(0o755)
    done = whatis(broken)
    assert done.returncode == 3 and "exit status 4" in done.stderr


def test_clones_are_named_by_their_package(tmp_path):
    assert flow.repositories([f"aiter={tmp_path}"]) == {"aiter": tmp_path}
    with pytest.raises(UsageError, match="expected NAME=DIR"):
        flow.repositories([f"={tmp_path}"])


def test_text_from_an_image_cannot_do_anything_to_a_terminal():
    commit = {"commit": None, "sure": "none", "sentence": "\x1b[31mred", "count": 0}
    contents = {
        "python": {"version": "3.11\x1b]0;title\x07", "executable": "/usr/bin/python3"},
        "rocm": {"version": None, "hip_runtime": None, "torch_hip": None},
        "cuda": {"version": None, "torch_cuda": None},
        "packages": {"aiter": {"version": "1\n2", "commit": commit}},
        "problems": ["a\nb"],
    }
    image = {"id": "sha256:1", "digest": None, "created": None, "labels": {"org.opencontainers.image.version": "\x1b[2J"}}
    text = words.render({"subjects": [{"subject": "x", "image": image, "contents": contents}]})
    assert "\x1b" not in text and "\x07" not in text and "a b" in text
