"""`kvcheck compare` and lists of known failures, as a nightly uses them."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

PLANTED = """
schema: 1
name: planted
op: paged_mqa_logits
providers: [./kernel.py]
fixed: {num_heads: 8, topk: 64, max_model_len: 512, block_size: 16}
axes:
  context_len: [1, 65, 300]
threshold: {axis: context_len, range: [1, 400]}
"""
HONEST = """
import importlib

def paged_mqa_logits(q, kv_cache, weights, context_lens, block_table, *, max_model_len, block_size, kv_dtype, out, alloc):
    reference = importlib.import_module("kvcheck_references.paged_mqa_logits").paged_mqa_logits
    result = reference(q, kv_cache, weights, context_lens, block_table, max_model_len=max_model_len, block_size=block_size,
                       kv_dtype=kv_dtype, out=out, alloc=alloc)
    out.copy_(result) if result is not None and result is not out else None
    EXTRA
"""
REGRESSION = "out[(context_lens > 200).repeat_interleave(out.shape[0] // len(context_lens)), 0] += 1"
ROW = "planted[context_len=300]"


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """A folder with two runs of one provider, whose file is worse in the second."""
    folder = tmp_path_factory.mktemp("nights")
    (folder / "planted.yaml").write_text(PLANTED)
    for name, extra, code in (("before", "", 0), ("after", REGRESSION, 1)):
        (folder / "kernel.py").write_text(HONEST.replace("EXTRA", extra))
        command = [sys.executable, "-m", "kvcheck.cli.main", "run", "planted.yaml", "--out", name, "--quiet", "--jobs", "1"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=170)
        assert done.returncode == code, done.stdout + done.stderr
    return folder


@pytest.fixture
def in_nights(kvcheck, nights):
    """Runs a command in that folder."""
    return lambda *words: kvcheck(*words, cwd=nights)


def test_a_planted_regression_is_found_and_nothing_else(in_nights):
    done = in_nights("compare", "before", "after")
    assert done.code == 1, done.out + done.err
    lines = done.out.splitlines()
    assert lines[0].endswith("got worse.")
    assert f"  {ROW}  ./kernel.py" in lines
    assert "planted[context_len=65]" not in done.out.partition("Flips")[0]
    assert "after ./kernel.py: passes up to context_len 200, fails from 201" in done.out
    again = next(line for line in lines if line.strip().startswith("again: ")).partition("again: ")[2]
    repeated = in_nights(*shlex.split(again)[1:], "--out", "again", "--quiet")
    assert repeated.code == 1 and [row["verdict"] for row in repeated.run["cases"]] == ["mismatch"]
    back = in_nights("compare", "after", "before")
    assert back.code == 0 and back.out.startswith("Nothing got worse, ")


def test_a_comparison_in_every_format_into_files(in_nights, nights):
    for form in ("markdown", "github", "json", "csv", "junit"):
        done = in_nights("compare", "before", "after", "--format", form, "--write", f"said.{form}")
        assert done.code == 1 and done.out == "", done.err
        assert ROW in (nights / f"said.{form}").read_text()
    assert json.loads((nights / "said.json").read_text())["exit_code"] == 1


def test_a_nightly_is_green_until_it_changes(in_nights, nights):
    known = nights / "known.yaml"
    entry = "- {case: 'planted[*', provider: ./kernel.py, verdict: mismatch, reason: a planted fault, link: 'o/r#1', may_pass: true}\n"
    known.write_text(entry)
    night = ("run", "planted.yaml", "--known", "known.yaml", "--quiet", "--no-threshold", "--no-diagnosis", "--jobs", "1", "--out")
    green = in_nights(*night, "green")
    assert green.code == 0, green.out + green.err
    assert green.run["run"]["exit_code"] == 0 and green.run["run"]["verdict_counts"] == {"mismatch": 1, "pass": 2}
    assert [row["known"]["state"] for row in green.run["cases"] if row["verdict"] == "mismatch"] == ["known"]
    assert "1 failure is known: a planted fault (o/r#1)." in green.out
    compared = in_nights("compare", "before", "after", "--known", "known.yaml")
    assert compared.code == 0 and "known and not counted as worse" in compared.out
    known.write_text(entry.replace("verdict: mismatch", "verdict: crash"))
    changed = in_nights(*night, "changed")
    assert changed.code == 1 and "in another way than crash" in changed.out
    known.write_text(entry.replace(", may_pass: true", ""))
    shown = in_nights("report", "after", "--known", "known.yaml", "--format", "junit")
    assert shown.code == 0 and "kvcheck.known_failure_passes" in shown.out and "kvcheck.known" in shown.out
    fixed = in_nights(*night, "fixed", "--only", "planted[context_len=65]")
    assert fixed.code == 1 and "Known failure passes now: remove it from the list" in fixed.out
    known.write_text("- {case: a}\n")
    bad = in_nights(*night, "bad")
    assert bad.code == 2 and "known.yaml:1: [0].link: expected" in bad.err and not (nights / "bad").exists()


def test_two_providers_in_one_go(kvcheck):
    words = ("compare", "smoke", "--provider", "torch_eager", "--provider", "fault:wrong_past=100", "--out", "both", "--quiet")
    done = kvcheck(*words)
    assert done.code == 1, done.out + done.err
    assert "Of 10 cases in both: 4 newly failing and 6 the same." in done.out
    assert done.run["run"]["command"].startswith("kvcheck compare smoke --provider torch_eager")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("one",), "expected two runs (RUN_A RUN_B), or CASE with --provider A --provider B, got 1"),
        (("a", "b"), "RUN_A: expected a folder that holds a run.json, got a"),
        (("smoke", "--provider", "torch_eager"), "--provider: expected two different ones to compare, got torch_eager"),
        (("a", "b", "--format", "tabel"), "got 'tabel'; nearest: table"),
        (("a", "b", "--drift", "1"), "--drift: expected a factor above 1, got 1"),
        (("a", "b", "--format", "csv", "--format", "json", "--write", "x"), "--write: expected one --format for one file"),
    ],
)
def test_usage(kvcheck, words, message):
    done = kvcheck("compare", *words)
    assert done.code == 2 and message in done.err, done.err
    assert "Traceback" not in done.err
