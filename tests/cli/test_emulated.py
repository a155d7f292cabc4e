"""`--device gfx950-emulated` as a user types it: what the report must say, what turns a check off, and which words are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

PLANTED = Path(__file__).resolve().parents[1] / "planted" / "emulated.py"
CASE = """\
schema: 1
name: small
op: paged_mqa_logits
providers: [triton]
fixed: {batch: 1, num_heads: 16, block_size: 16, topk: 16, max_model_len: 256}
axes: {context_len: [33, 70]}
"""


def test_the_report_says_emulated_and_what_the_card_would_have_hidden(kvcheck, case_file):
    pytest.importorskip("triton", reason="compiling kernels needs triton")
    words = ["run", case_file(CASE), "--provider", "triton", "--provider", PLANTED, "--device", "gfx950-emulated", "--out", "out"]
    done = kvcheck(*words, "--jobs", 1, env={"PLANTED": "clamped_access", "TRITON_INTERPRET": "1"})
    assert done.code == 0, done.err
    assert "gfx950-emulated: emulated, not hardware" in done.out and "how CDNA4 sums is not published" in done.out
    assert "Buffer accesses outside their buffer, which the card clamps" in done.out and "emulated.py:" in done.out
    device = done.run["environment"]["device"]
    assert (device["type"], device["arch"]) == ("emulated", "gfx950") and "race" in device["sanitizer"]
    kinds = {row["provider"]: {found["kind"] for found in row["findings"]} for row in done.run["cases"]}
    assert kinds == {"triton": set(), str(PLANTED): {"clamped_access"}}
    assert "emulated, not hardware" in (done.folder / "report.md").read_text()


def test_a_race_is_nondeterministic_and_the_check_can_be_turned_off(kvcheck, case_file):
    pytest.importorskip("triton", reason="compiling kernels needs triton")
    words = ["run", case_file(CASE), "--set", "context_len=33", "--provider", PLANTED, "--device", "gfx942-emulated", "--format", "json"]
    done = kvcheck(*words, "--out", "on", env={"PLANTED": "race"})
    row = done.run["cases"][0]
    assert (done.code, row["verdict"], row["check"]) == (1, "nondeterministic", "race")
    assert "--device gfx942-emulated" in row["repro"]
    done = kvcheck(*words, "--out", "off", "--sanitizer-off", "race", env={"PLANTED": "race"})
    assert (done.code, done.run["cases"][0]["verdict"]) == (0, "pass")
    assert "--sanitizer-off race" in done.run["cases"][0]["repro"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--device", "gfx95-emulated"], "--device: expected auto, cpu, cuda, cuda:N, gfx942-emulated or gfx950-emulated"),
        (["--device", "gfx950-emulated", "--sanitizer-off", "races"], "got 'races'; nearest: race"),
        (["--device", "cpu", "--sanitizer-off", "race"], "only those have a sanitizer"),
    ],
)
def test_wrong_words_are_refused(kvcheck, case_file, words, text):
    done = kvcheck("run", case_file(CASE), *words)
    assert done.code == 2 and text in done.err
