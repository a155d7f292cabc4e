"""`kvcheck report`: formats, files, masking, and posting through a `gh` that stands in for the real one."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "unit" / "golden" / "run.json"
MARKER = "<!-- kvcheck report paged_mqa,vllm_39303 -->"
HELP = "Flags:\n  -F, --body-file file\n"
NEW = HELP + "      --create-if-none   Create a new comment\n      --edit-last        Edit the last comment\n"
MIDDLE = HELP + "      --edit-last        Edit the last comment\n"
GH = """#!/bin/sh
folder=$(dirname "$0")
case "$*" in
  *--help*) cat "$folder/help"; exit 0;;
  *"issue view"*) cat "$folder/comments"; exit 0;;
esac
for word in "$@"; do printf '%s\\n' "$word" >> "$folder/called"; done
while [ $# -gt 0 ]; do
  if [ "$1" = --body-file ]; then cat "$2" > "$folder/body"; fi
  shift
done
if [ -f "$folder/refuses" ]; then printf '\\033[31mHTTP 422: body is too long\\033[0m' >&2; exit 1; fi
echo https://github.com/o/r/issues/7#issuecomment-1
"""


@pytest.fixture
def finished(tmp_path):
    """A folder with a finished run."""
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copyfile(GOLDEN, folder / "run.json")
    return folder


@pytest.fixture
def gh(tmp_path):
    """Puts a gh on PATH; `gh(help, comments)` gives the environment, `gh.folder` holds what it was called with."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def make(text=NEW, comments=(), refuses=False):
        (folder / "gh").write_text(GH)
        (folder / "gh").chmod(0o755)
        (folder / "help").write_text(text)
        (folder / "comments").write_text(json.dumps({"comments": list(comments)}))
        if refuses:
            (folder / "refuses").touch()
        return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}

    make.folder = folder
    return make


def mine(body):
    return {"viewerDidAuthor": True, "body": body}


def others(body):
    return {"viewerDidAuthor": False, "body": body}


POST = ("report", "run", "--format", "github", "--post", "o/r#7")


@pytest.mark.parametrize(
    ("text", "comments", "options", "said"),
    [
        (NEW, [], [], "a new comment"),
        (NEW, [others(MARKER)], [], "a new comment"),
        (NEW, [mine(f"old\n{MARKER}"), others("thanks")], ["--edit-last", "--create-if-none"], "in place of your last comment there"),
        (MIDDLE, [mine(MARKER)], ["--edit-last"], "in place of your last comment there"),
        (NEW, [mine(MARKER), mine("I looked into it by hand")], [], "stays as it is"),
        (NEW, [mine("<!-- kvcheck report smoke -->")], [], "stays as it is"),
        (HELP, [mine(MARKER)], [], "this gh has no --edit-last"),
    ],
)
def test_posting_edits_its_own_comment_and_no_other(kvcheck, finished, gh, text, comments, options, said):
    done = kvcheck(*POST, "--yes", env=gh(text, comments))
    assert done.code == 0, done.err
    words = (gh.folder / "called").read_text().splitlines()
    file = words.index("--body-file") + 1
    assert words[: file - 1] == ["issue", "comment", "7", "--repo", "o/r"] and words[file + 1 :] == options
    body = (gh.folder / "body").read_text()
    assert body.startswith("## kvcheck: ") and MARKER in body and body in done.out
    assert said in done.out and "posted: https://github.com/o/r/issues/7#issuecomment-1" in done.out
    assert not Path(words[file]).exists()


@pytest.mark.parametrize(("answer", "posted"), [("y", True), ("yes", True), ("n", False), ("", False)])
def test_it_shows_the_comment_and_asks(finished, gh, answer, posted):
    master, slave = pty.openpty()
    try:
        os.write(master, f"{answer}\n".encode())
        command = [sys.executable, "-m", "kvcheck.cli.main", *POST]
        environment = {**os.environ, **gh()}
        done = subprocess.run(
            command, stdin=slave, capture_output=True, text=True, cwd=finished.parent, env=environment, timeout=120, check=False
        )
    finally:
        os.close(master)
        os.close(slave)
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("## kvcheck: ") < done.stdout.index("Post it? [y/N]")
    assert (gh.folder / "called").exists() is posted
    assert ("posted: " if posted else "not posted") in done.stdout


def test_nobody_to_ask_no_gh_and_a_gh_that_fails(kvcheck, finished, gh, tmp_path):
    environment = gh()
    done = kvcheck(*POST, env=environment)
    assert done.code == 2 and "--post: expected a terminal to ask on, got none; post without being asked: --yes" in done.err
    assert not (gh.folder / "called").exists()
    empty = tmp_path / "empty"
    empty.mkdir()
    done = kvcheck(*POST, "--yes", env={"PATH": str(empty)})
    assert done.code == 2 and "expected the gh command line on PATH, got none" in done.err
    assert "gh issue comment 7 --repo o/r --body-file comment.md" in done.err
    done = kvcheck(*POST, "--yes", env=gh(refuses=True))
    assert done.code == 3 and "gh could not post it (exit status 1): HTTP 422: body is too long\n" in done.err
    assert "\x1b" not in done.err and "Traceback" not in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--post", "o/r"), "--post: expected OWNER/REPO#N or the address of an issue or pull request, got 'o/r'"),
        (("--post", "o/r#7;rm"), "--post: expected OWNER/REPO#N"),
        (("--post", "-x/r#7"), "--post: expected OWNER/REPO#N"),
        (("--post", "o/r#7", "--format", "table"), "--post: expected --format github, got table"),
        (("--yes",), "--yes: expected --post OWNER/REPO#N"),
        (("--out", "."), "--out: expected a file, got the folder ."),
        (("--out", "no/such/file"), "--out: cannot write no/such/file: No such file or directory"),
        (("--out", "x", "--format", "csv", "--format", "json"), "--out: expected one --format for one file, got 2: csv, json"),
        (("--format", "githb"), "got 'githb'; nearest: github"),
        (("--known", "nowhere.yaml"), "nowhere.yaml: expected a readable list of known failures, got No such file or directory"),
    ],
)
def test_usage(kvcheck, finished, words, message):
    done = kvcheck("report", "run", *words)
    assert done.code == 2 and message in done.err, done.err
    assert "Traceback" not in done.err


def test_an_address_is_a_place_too():
    from kvcheck.flow.post import Place, parse

    assert parse("https://github.com/ROCm/aiter/issues/12#issuecomment-3") == Place("ROCm/aiter", "12")
    assert parse("https://github.com/vllm-project/vllm/pull/31282") == Place("vllm-project/vllm", "31282")
    assert parse("https://git.example/o/r/issues/1") == Place("git.example/o/r", "1")


def test_what_is_rendered_is_masked_unless_told_otherwise(kvcheck, finished):
    home = "/Users/somebody"
    run = json.loads((finished / "run.json").read_text())
    run["run"]["masked"] = False
    run["environment"]["executable"] = f"{home}/venv/bin/python"
    run["cases"][0].update(provider=f"aiter@{home}/aiter", message="token hf_" + "aB3" * 12, verdict="crash")
    (finished / "run.json").write_text(json.dumps(run))
    for form in ("table", "markdown", "github", "json", "csv", "junit"):
        done = kvcheck("report", "run", "--format", form, env={"HOME": home})
        assert done.code == 0 and "somebody" not in done.out and "hf_aB3" not in done.out, form
        plain = kvcheck("report", "run", "--format", form, "--no-mask", env={"HOME": home})
        assert "hf_aB3" in plain.out, form
    assert "aiter@~/aiter" in done.out


def test_a_file_gets_the_report_whole(kvcheck, finished, tmp_path):
    done = kvcheck("report", "run", "--format", "junit", "--out", "junit.xml")
    assert done.code == 0 and done.out == ""
    assert (tmp_path / "junit.xml").read_text().startswith("<?xml") and not (tmp_path / "junit.xml.part").exists()


RAISES = """
def paged_mqa_logits(q, kv_cache, weights, context_lens, block_table, *, max_model_len, block_size, kv_dtype, out, alloc):
    raise RuntimeError(f"cannot open {__file__} with password=hunter22")
"""
CASE = """
schema: 1
name: small
op: paged_mqa_logits
fixed: {num_heads: 8, topk: 64, max_model_len: 512}
axes: {context_len: [65]}
"""


def test_a_run_leaves_no_names_and_its_command_works(kvcheck, tmp_path):
    home = tmp_path / "somebodys-home"
    home.mkdir()
    (home / "my kernel.py").write_text(RAISES)
    (home / "small.yaml").write_text(CASE)
    words = ("run", home / "small.yaml", "--provider", home / "my kernel.py", "--quiet", "--out")
    done = kvcheck(*words, "masked", env={"HOME": str(home)})
    assert done.code == 1, done.err
    (row,) = done.run["cases"]
    for file in ("run.json", "results.csv", "report.md"):
        text = (done.folder / file).read_text()
        assert "somebodys-home" not in text and "hunter22" not in text, file
    assert "somebodys-home" not in done.out and "hunter22" not in done.out
    assert row["verdict"] == "crash" and "cannot open ~/my kernel.py with password=***" in row["message"]
    assert (row["provider"], row["case_file"]) == ("~/my kernel.py", "~/small.yaml")
    assert row["repro"].startswith("kvcheck run ~/small.yaml --only 'small[context_len=65]' --provider ~/'my kernel.py'")
    shell = f'kvcheck() {{ "{sys.executable}" -m kvcheck.cli.main "$@"; }}\n{row["repro"]} --out again --quiet'
    environment = {**os.environ, "HOME": str(home)}
    again = subprocess.run(["bash", "-c", shell], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=170, check=False)
    assert again.returncode == 1, again.stdout + again.stderr
    repeated = json.loads((tmp_path / "again" / "run.json").read_text())["cases"][0]
    assert {key: repeated[key] for key in ("id", "provider", "message")} == {key: row[key] for key in ("id", "provider", "message")}
    plain = kvcheck(*words, "plain", "--no-mask", env={"HOME": str(home)})
    assert "somebodys-home/my kernel.py" in plain.run["cases"][0]["provider"] and "hunter22" in plain.out
