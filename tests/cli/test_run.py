"""`kvcheck run`: what it leaves, how it ends, and that it says so."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest

SMALL = """
schema: 1
name: small
op: paged_mqa_logits
providers: [torch_eager]
fixed: {num_heads: 8, topk: 64, max_model_len: 512}
axes:
  context_len: [1, 65, 300]
  block_size: [1, 16]
"""
ROW_KEYS = {
    "id", "case_file", "op", "provider", "provider_version", "dispatch", "precision", "params", "seed", "input_fingerprint", "verdict",
    "also_failed", "message", "metrics", "trivial", "first_bad", "bad_count", "element_count", "diagnosis", "timing", "repro",
}  # fmt: skip


def test_smoke_passes_and_leaves_what_the_contract_promises(kvcheck):
    done = kvcheck("run", "smoke", "--provider", "torch_eager", "--out", "r")
    assert done.code == 0, done.err
    run = done.run
    assert run["schema"] == "kvcheck.run/1" and len(run["cases"]) == 10
    assert run["run"]["verdict_counts"] == {"pass": 10} and run["run"]["exit_code"] == 0
    assert set(run["run"]) >= {"id", "started", "wall_s", "command", "case_files", "seed", "verdict_counts", "exit_code"}
    assert run["environment"]["torch"] and run["environment"]["device"]["arch"] == "cpu"
    for row in run["cases"]:
        assert ROW_KEYS <= set(row), ROW_KEYS - set(row)
        assert row["precision"].startswith("fp32_any") and row["metrics"]["max_bound_ratio"] <= 1
        assert row["timing"]["total_ms"] > 0
    with open(done.folder / "results.csv") as file:
        assert len(list(csv.DictReader(file))) == 10
    assert "pass" in (done.folder / "report.md").read_text()
    assert "torch_eager" in done.out and str(done.folder.name) in done.out


def test_ids_name_the_swept_axes_in_file_order_and_repeat_the_case(kvcheck, case_file):
    file = case_file(SMALL)
    done = kvcheck("run", file, "--provider", "fault:wrong_past=100", "--out", "r")
    assert done.code == 1
    bad = [row for row in done.run["cases"] if row["verdict"] != "pass"]
    assert [row["id"] for row in bad] == ["small[context_len=300,block_size=1]", "small[context_len=300,block_size=16]"]
    words = bad[0]["repro"].split()
    assert words[:2] == ["kvcheck", "run"]
    import shlex

    again = kvcheck(*shlex.split(bad[0]["repro"])[1:], "--out", "again")
    assert again.code == 1 and [row["id"] for row in again.run["cases"]] == [bad[0]["id"]]
    assert again.run["cases"][0]["input_fingerprint"] == bad[0]["input_fingerprint"]
    assert "MISMATCH logits: max_bound_ratio" in done.out and "again: kvcheck run" in done.out


def stripped(run):
    return [{key: value for key, value in row.items() if key != "timing"} for row in run["cases"]]


def test_jobs_change_nothing_but_timing(kvcheck, case_file):
    file = case_file(SMALL)
    words = ("run", file, "--provider", "torch_eager", "--provider", "fault:wrong_past=100")
    one = kvcheck(*words, "--jobs", "1", "--out", "one")
    two = kvcheck(*words, "--jobs", "2", "--out", "two")
    assert one.code == two.code == 1
    assert stripped(one.run) == stripped(two.run)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("run", "no_such_case"), 2, "no_such_case"),
        (("run", "smok"), 2, "smoke"),
        (("run", "smoke", "--provider", "torch_eagre"), 2, "torch_eager"),
        (("run", "smoke", "--provider", "fault:wrong_pst=3"), 2, "wrong_past"),
        (("run", "smoke", "--provider", "fault:wrong_past"), 2, "wrong_past"),
        (("run", "smoke", "--set", "contxt_len=3"), 2, "context_len"),
        (("run", "smoke", "--set", "block_size=0"), 2, "block_size"),
        (("run", "smoke", "--only", "smoke[context_len=2]"), 2, "smoke["),
        (("run", "smoke", "--precision", "fp33"), 2, "fp32_any"),
        (("run", "smoke", "--shard", "3/2"), 2, "--shard"),
        (("run", "smoke", "--format", "tabel"), 2, "table"),
        (("run", "smoke", "--device", "gpu"), 2, "--device"),
        (("run", "smoke", "--python", "/nowhere/python"), 2, "/nowhere/python"),
        (("run", "smoke", "--shard", "99/99"), 3, "no case"),
        (("report", "nowhere"), 2, "run.json"),
        (("list", "opss"), 2, "ops"),
        (("frobnicate",), 2, "frobnicate"),
        (("threshold", "smoke", "--axis", "block_table"), 2, "context_len"),
    ],
)
def test_bad_input_is_one_clear_error(kvcheck, words, code, text):
    done = kvcheck(*words)
    assert done.code == code, (done.out, done.err)
    assert text in done.err and "Traceback" not in done.err


def test_all_faults_of_a_file_at_once_with_their_lines(kvcheck, case_file):
    file = case_file("schema: 1\nname: x\nop: paged_mqa_logits\naxs: {}\nfixed: {block_size: 0, num_haeds: 3}\naxes:\n  context_len: [9999]\n")
    done = kvcheck("run", file)
    assert done.code == 2
    for line, word in ((4, "axes"), (5, "num_heads"), (5, "block_size")):
        assert f"case.yaml:{line}" in done.err and word in done.err


def test_a_file_of_ones_own_that_cannot_serve_is_3_and_125_for_git_bisect(kvcheck, case_file, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("def paged_mqa_logits(**arguments):\n    raise Unsupported('needs gfx950')\n")
    words = ("run", case_file(SMALL), "--provider", mine)
    done = kvcheck(*words, "--out", "r")
    assert done.code == 3 and {row["message"] for row in done.run["cases"]} == {"needs gfx950"}
    assert kvcheck(*words, "--exit-code", "git-bisect").code == 125


def test_a_plug_in_that_does_not_load_is_a_row_and_never_a_pass(kvcheck, case_file, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("import nothing_of_that_name\n")
    done = kvcheck("run", case_file(SMALL), "--provider", mine, "--out", "r")
    assert done.code == 3 and {row["verdict"] for row in done.run["cases"]} == {"harness_error"}
    assert "nothing_of_that_name" in done.out
    both = kvcheck("run", case_file(SMALL), "--provider", mine, "--provider", "torch_eager", "--out", "both")
    assert both.code == 3 and both.run["run"]["verdict_counts"] == {"harness_error": 6, "pass": 6}


def test_text_from_a_kernel_cannot_inject(kvcheck, case_file, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("def paged_mqa_logits(**arguments):\n    raise RuntimeError('[red]x[/] \\x1b[31m <img src=y> ``` | @user #1')\n")
    done = kvcheck("run", case_file(SMALL), "--provider", mine, "--set", "context_len=1", "--out", "r")
    assert done.code == 1 and done.run["run"]["verdict_counts"] == {"crash": 2}
    assert "\x1b" not in done.out and "[red]x[/]" in done.out
    assert "\x1b" not in (done.folder / "report.md").read_text()


def test_formats_and_report(kvcheck, case_file):
    done = kvcheck("run", case_file(SMALL), "--format", "json", "--quiet", "--out", "r")
    assert json.loads(done.out)["schema"] == "kvcheck.run/1" and done.err == ""
    for form in ("table", "markdown", "json", "csv"):
        again = kvcheck("report", "r", "--format", form)
        assert again.code == 0 and again.out.strip()
    assert kvcheck("report", "r", "--format", "markdown").out == (done.folder / "report.md").read_text()


def test_out_is_never_overwritten(kvcheck, case_file):
    file = case_file(SMALL)
    assert kvcheck("run", file, "--out", "r").code == 0
    refused = kvcheck("run", file, "--out", "r")
    assert refused.code == 2 and "--resume" in refused.err and refused.run["run"]["exit_code"] == 0


def test_an_interrupted_run_goes_on_where_it_was(kvcheck, case_file, tmp_path):
    """Killed in the middle; --resume judges the rest and nothing twice."""
    log = tmp_path / "calls"
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import time\nfrom kvcheck.agent.providers import torch_eager\n"
        f"def paged_mqa_logits(**a):\n    open({str(log)!r}, 'a').write('x')\n    time.sleep(0.5)\n    torch_eager.paged_mqa_logits(**a)\n"
    )
    file = case_file(SMALL)
    words = ["run", file, "--provider", str(slow), "--jobs", "1", "--out", "r"]
    process = subprocess.Popen([sys.executable, "-m", "kvcheck.cli.main", *words], cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    journal = tmp_path / "r" / "journal.jsonl"
    end = time.monotonic() + 90
    while time.monotonic() < end and (not journal.is_file() or journal.read_text().count("\n") < 4):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    judged = journal.read_text().count("\n") - 1
    assert 0 < judged < 6 and not (tmp_path / "r" / "run.json").exists()
    done = kvcheck(*words, "--resume")
    assert done.code == 0 and done.run["run"]["verdict_counts"] == {"pass": 6}
    assert len(log.read_text()) <= 7, "at most the case that was running is run again"
    assert os.path.getsize(journal) > 0


def test_crash_timeout_and_the_run_goes_on(kvcheck, case_file, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(
        "import os, signal, time\nfrom kvcheck.agent.providers import torch_eager\n"
        "def paged_mqa_logits(**a):\n"
        "    length = int(a['context_lens'].max())\n"
        "    if length == 65: os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    if length == 300: time.sleep(600)\n"
        "    torch_eager.paged_mqa_logits(**a)\n"
    )
    done = kvcheck("run", case_file(SMALL), "--provider", mine, "--timeout", "2", "--out", "r")
    assert done.code == 1
    assert [row["verdict"] for row in done.run["cases"]] == ["pass", "pass", "crash", "crash", "timeout", "timeout"]
    assert "SIGSEGV" in done.run["cases"][2]["message"]
