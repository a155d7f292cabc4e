"""The sentences of a report."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from kvcheck.cases.plan import load_all
from kvcheck.flow.threshold import find, plan
from kvcheck.report.words import error_text, findings, rows, threshold_sentence
from kvcheck.report.words.choose import around, failures, most_telling
from kvcheck.report.words.findings import headline
from kvcheck.report.words.numbers import number, share
from kvcheck.search.threshold import find_flips

RUN = json.loads((Path(__file__).parent / "golden" / "run.json").read_text())


def row(verdict, provider=None):
    return next(r for r in RUN["cases"] if r["verdict"] == verdict and provider in (None, r["provider"]))


def said(passes, low=1, high=16384, provider="triton", **more):
    found = find_flips(lambda n: "pass" if passes(n) else "fail", low, high, boundaries=[64, 256, 2048], **more)
    return threshold_sentence({**found.to_dict(), **found.details(), "provider": provider, "at": {}})


def test_error_text_is_the_house_form():
    assert error_text({**row("mismatch"), "dispatch": "_deepgemm_fp8_paged_mqa_logits", "also_failed": []}).split("\n") == [
        "MISMATCH logits: max_bound_ratio 3.1e4 (pass is <= 1), 3 of 16384 elements in 1 of 4 rows; the median ratio is 0.05: "
        "most elements are right, so an addressing or masking fault",
        "  3 of 16384 elements, first at [row 3, position 2049] block 2049 offset 0: expected 1.25, got 4.25, bound 9.1e-5",
        "  case paged_mqa[context_len=4096,num_heads=32,block_size=1,block_table=shuffled,next_n=2] seed 42, "
        "provider aiter 0.1.7.post2.dev18 (_deepgemm_fp8_paged_mqa_logits)",
        "  again: kvcheck run paged_mqa --only 'paged_mqa[context_len=4096,num_heads=32,block_size=1,block_table=shuffled,next_n=2]' "
        "--provider aiter --seed 42",
    ]


def test_error_text_of_a_crash_shows_what_it_said():
    lines = error_text(row("crash")).split("\n")
    assert lines[0].startswith("CRASH paged_mqa_logits: ZeroDivisionError")
    assert lines[1] == "  it said: grid = (batch * next_n * (heads // ChunkQ) * SplitKV,)"


def test_error_text_of_a_bare_row_still_has_a_command():
    bare = {"verdict": "timeout", "id": "a[b=c d]", "case_file": "x.yaml", "provider": "triton"}
    assert error_text(bare).split("\n") == [
        "TIMEOUT case: no message",
        "  no output element was judged",
        "  case a[b=c d] seed -, provider triton",
        "  again: kvcheck run x.yaml --only 'a[b=c d]' --provider triton",
    ]


@pytest.mark.parametrize(
    ("passes", "words"),
    [
        (
            lambda n: True,
            "triton: no flip in context_len 1..16384, every judged point passes (43 evaluations, widest unexamined stretch 4,095).",
        ),
        (lambda n: False, "no flip in context_len 1..16384, every judged point fails"),
        (lambda n: n <= 2048, "passes up to context_len 2048, fails from 2049"),
        (lambda n: n > 2048, "fails up to context_len 2048, passes from 2049"),
        (lambda n: not 1537 <= n <= 1600, "2 flips along context_len: fails in 1537..1600"),
        (lambda n: 1537 <= n <= 9000, "fails up to 1536 and from 9001"),
        (lambda n: n % 64 == 0, "repeating every 64: passes only at multiples of 64"),
        (lambda n: n % 64 != 0, "repeating every 64: fails only at multiples of 64"),
        (lambda n: n % 256 != 1, "fails only where context_len mod 256 is 1"),
        (lambda n: n <= 2048 or n % 64 == 0, "passes up to 2048, beyond that passes only at multiples of 64"),
        (lambda n: n > 9 and n % 64 != 0, "fails up to 9, beyond that fails only at multiples of 64"),
        (lambda n: n % 256 < 128, "passes only where context_len mod 256 is 0..127"),
    ],
)
def test_thresholds_in_words(passes, words):
    assert words in said(passes)


def test_thresholds_say_what_stayed_open():
    assert "not complete: the budget of 50 evaluations was reached" in said(lambda n: n <= 3000, budget=50)
    assert "points between without a verdict" in said(lambda n: n <= 3000, budget=50)
    assert "up to 2048 top-k could not have failed, and the logits' bound decided alone" in said(lambda n: True, trivial_below=2048)
    found = find_flips(lambda n: "unknown", 1, 64)
    sentence = threshold_sentence({**found.to_dict(), **found.details(), "provider": "x", "at": {"next_n": 2}})
    assert sentence.startswith("x at next_n=2: no flip in context_len 1..64, because no point had a verdict")
    assert "16 points had no verdict" in sentence


@pytest.mark.parametrize(
    ("op", "metrics", "trivial", "words"),
    [
        ("paged_mqa_logits", {"max_bound_ratio": 0.5}, ["topk_set_match"], "the logits' bound decided alone"),
        ("topk_per_row", {"topk_set_match": 1.0}, [], "the other checks decided alone"),
        ("mla_decode", {"max_bound_ratio": 0.5}, [], None),
    ],
)
def test_top_k_is_spoken_of_where_it_was_judged(tmp_path, op, metrics, trivial, words):
    """mla_decode has an axis topk, the length of its lists, and no top-k: rows say which it is, not the axis."""
    fixed = {"topk_per_row": "{batch: 2, max_model_len: 512, topk: 64}"}.get(op, "{batch: 2, topk: 64}")
    file = tmp_path / "case.yaml"
    file.write_text(f"schema: 1\nname: x\nop: {op}\nproviders: [triton]\nfixed: {fixed}\naxes: {{context_len: [1, 257]}}\n")
    (case_file,) = load_all([str(file)])
    (search,) = plan(case_file, "context_len")
    entry, _ = find(search, lambda cases: [{"verdict": "pass", "metrics": metrics, "trivial": trivial} for _ in cases])
    sentence = threshold_sentence(entry)
    assert (f"up to 64 top-k could not have failed, and {words}" in sentence) if words else ("top-k" not in sentence)


def test_thresholds_with_the_keys_of_the_contract_alone():
    found = find_flips(lambda n: "pass", 1, 100)
    assert threshold_sentence({**found.to_dict(), "provider": "triton", "at": {}}).startswith("triton: no flip along context_len (")


def test_findings_count_providers_and_explain_what_is_no_evidence():
    text = "\n".join(findings(RUN))
    assert text.startswith("13 of 23 judged cases fail.")
    assert "triton: passes 7 of 7 judged cases; largest ratio to the bound where it passes 0.413, precision fp32_any (declared)" in text
    assert "aiter: passes 3 of 7 judged cases (3 nonfinite, 1 mismatch)" in text
    assert "1 harness_error: provider ./broken.py did not load" in text
    assert "In 11 of 23 judged cases no row is longer than topk: top-k could not have failed there" in text
    assert "wheel 0.1.7.post2.dev18 is of 2025-11 and old; newer releases are published elsewhere" in text
    assert "demonstration that needs no GPU" in text
    assert "gfx942 and gfx950 with Triton 3.5 and newer take Gluon kernels" in text


def test_notes_on_aiter_are_for_aiter_alone():
    run = copy.deepcopy(RUN)
    run["cases"] = [r for r in run["cases"] if not r["provider"].startswith("aiter")]
    text = "\n".join(findings(run))
    assert "wheel" not in text
    assert "Gluon" not in text
    run["cases"] = [
        {**row("pass", "aiter"), "provider": "aiter@/src", "provider_version": "8abb3607e9", "dispatch": "aiter/ops/triton/x.py: Gluon"}
    ]
    text = "\n".join(findings(run))
    assert "wheel" not in text
    assert "take Gluon kernels" not in text
    assert "aiter/ops/triton/x.py: Gluon" in text  # what passed is named in what the run clears


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ([], "no case was run"),
        (["unsupported", "harness_error"], "nothing could be judged: 2 cases, no verdict on a kernel"),
        (["pass"], "the one judged case passes"),
        (["pass", "pass", "invalid_case"], "all 2 judged cases pass"),
        (["pass", "crash"], "1 of 2 judged cases fails"),
        (["crash"], "1 of 1 judged case fails"),
    ],
)
def test_headline(verdicts, words):
    assert headline({"cases": [{"verdict": verdict} for verdict in verdicts]}) == words


def test_numbers_are_short_and_never_round_to_perfection():
    assert [number(v, 3) for v in (3.1e4, 9.1e-5, 0.5, 1e100, "-inf", None, 12)] == ["3.1e4", "9.1e-5", "0.5", "1e100", "-inf", "-", "12"]
    assert [share(v) for v in (1.0, 0.99951, 0.99999, 0.5, 1)] == ["1.0000", "0.9995", "0.999990000", "0.5000", "1.0000"]


def test_the_most_telling_rows_hold_every_kind_of_failure_and_the_closest_passes():
    chosen = most_telling(RUN["cases"] * 10, 20)
    assert len(chosen) == 20
    assert {r["verdict"] for r in chosen} >= {
        r["verdict"] for r in RUN["cases"] if r["verdict"] not in ("unsupported", "invalid_case", "harness_error")
    }
    assert max((r for r in RUN["cases"] if r["verdict"] == "pass"), key=lambda r: r["metrics"]["max_bound_ratio"]) in chosen
    assert len(most_telling(RUN["cases"] * 10, 4)) == 4
    assert most_telling([row("pass")] * 3, 20) == [row("pass")] * 3


def test_one_row_a_kind_of_failure():
    chosen, more = failures(RUN["cases"] * 2, 100)
    assert len(chosen) == 11
    assert more == 26 - 11


def test_rows_around_a_flip_are_of_its_provider_and_point():
    base = row("pass", "triton")
    cases = [{**base, "params": {**base["params"], "context_len": n, "num_heads": heads}} for n in range(1, 40) for heads in (32, 64)]
    cases.append({**base, "params": {**base["params"], "context_len": [20, 0]}})
    cases.append({**base, "provider": "aiter", "params": {**base["params"], "context_len": 20}})
    threshold = {"axis": "context_len", "provider": "triton", "at": {"num_heads": 64}, "flips": [{"last_pass": 20, "first_fail": 21}]}
    chosen = around(cases, threshold)
    assert [r["params"]["context_len"] for r in chosen] == list(range(17, 25))
    assert {(r["provider"], r["params"]["num_heads"]) for r in chosen} == {("triton", 64)}
    low = {**threshold, "flips": [{"last_pass": 2, "first_fail": 1}]}
    assert [r["params"]["context_len"] for r in around(cases, low)] == list(range(1, 9))


def test_the_reproducers_number_stands_beside_an_invalid_case_and_says_what_it_is_worth():
    row = {"verdict": "invalid_case", "provider": "p", "id": "c", "trivial": ["topk_set_match"]}
    row["metrics"] = {"topk_positional_match": 0.0029}
    assert rows.set_match(row) == "trivial, positional 0.0029"
    assert rows.set_match({**row, "verdict": "pass"}) == "trivial"
    told = " ".join(findings({"cases": [row]}))
    assert "no evidence that a kernel is right" in told and "no evidence that a kernel is wrong" in told
